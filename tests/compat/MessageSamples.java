import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Prints messages of Kafka's with random contents: class, version, bytes as base64, and JSON as Kafka writes it.
 * Arguments: a seed, the number of samples of each version, and names of classes.
 */
public final class MessageSamples {
    private static Random random;

    public static void main(String[] args) throws Exception {
        random = new Random(Long.parseLong(args[0]));
        int samples = Integer.parseInt(args[1]);
        for (int at = 2; at < args.length; at++) {
            Class<?> type = Class.forName(args[at]);
            Method toJson = jsonWriter(type);
            Message empty = (Message) type.getDeclaredConstructor().newInstance();
            for (short version = empty.lowestSupportedVersion(); version <= empty.highestSupportedVersion(); version++) {
                for (int sample = 0; sample < samples; sample++) {
                    Message message = (Message) type.getDeclaredConstructor().newInstance();
                    fill(message, message, version);
                    byte[] bytes = written(message, version);
                    System.out.println(args[at] + "\t" + version + "\t" + Base64.getEncoder().encodeToString(bytes)
                        + "\t" + toJson.invoke(null, message, version));
                }
            }
        }
    }

    private static Method jsonWriter(Class<?> type) throws Exception {
        for (Method method : Class.forName(type.getName() + "JsonConverter").getMethods()) {
            if (method.getName().equals("write") && method.getParameterCount() == 2) {
                return method;
            }
        }
        throw new IllegalStateException(type.getName());
    }

    private static byte[] written(Message message, short version) {
        return MessageUtil.toByteBufferAccessor(message, version).buffer().array();
    }

    /** Gives each field of a part a random value, unless the whole can then not be written in this version. */
    private static void fill(Message whole, Object part, short version) throws Exception {
        for (Field field : part.getClass().getDeclaredFields()) {
            if (java.lang.reflect.Modifier.isStatic(field.getModifiers()) || field.getName().startsWith("_")) {
                continue;
            }
            field.setAccessible(true);
            Object before = field.get(part);
            if (random.nextInt(8) == 0) {
                continue;
            }
            field.set(part, value(field.getGenericType(), version));
            try {
                written(whole, version);
            } catch (RuntimeException refused) {
                field.set(part, before);
            }
        }
    }

    private static Object value(Type type, short version) throws Exception {
        if (type == byte.class || type == Byte.class) return (byte) random.nextInt();
        if (type == short.class || type == Short.class) return (short) random.nextInt();
        if (type == int.class) return random.nextInt() & 0x7fff;
        if (type == long.class || type == Long.class) return random.nextLong();
        if (type == double.class) return random.nextDouble();
        if (type == boolean.class) return random.nextBoolean();
        if (type == String.class) return "text é " + random.nextInt(1000);
        if (type == Uuid.class) return new Uuid(random.nextLong(), random.nextLong());
        if (type == byte[].class) {
            byte[] bytes = new byte[random.nextInt(200)];
            random.nextBytes(bytes);
            return bytes;
        }
        if (type == ByteBuffer.class) return ByteBuffer.wrap((byte[]) value(byte[].class, version));
        if (type instanceof ParameterizedType) {
            Type element = ((ParameterizedType) type).getActualTypeArguments()[0];
            List<Object> list = new ArrayList<>();
            for (int left = random.nextInt(4); left > 0; left--) {
                list.add(element == Integer.class ? (Object) random.nextInt() : value(element, version));
            }
            return list;
        }
        Object part = ((Class<?>) type).getDeclaredConstructor().newInstance();
        if (part instanceof Collection) {
            Type element = ((ParameterizedType) part.getClass().getGenericSuperclass()).getActualTypeArguments()[0];
            @SuppressWarnings("unchecked") Collection<Object> elements = (Collection<Object>) part;
            for (int left = random.nextInt(4); left > 0; left--) {
                elements.add(value(element, version));
            }
            return part;
        }
        fill((Message) part, part, version);
        return part;
    }
}
