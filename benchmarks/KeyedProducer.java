import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Fills a topic with random letters: keys of 16 bytes, values of a fixed size, in batches of 16 KB. */
public class KeyedProducer {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int records = Integer.parseInt(args[2]);
        int valueBytes = Integer.parseInt(args[3]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("batch.size", "16384");
        properties.put("linger.ms", "5");
        properties.put("acks", "1");
        Random random = new Random(20130101);
        byte[] letters = new byte[1 << 24];
        random.nextBytes(letters);
        for (int at = 0; at < letters.length; at++) {
            letters[at] = (byte) ('A' + (letters[at] & 0xff) % 26);
        }
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties, bytes, bytes)) {
            for (int number = 0; number < records; number++) {
                byte[] key = slice(letters, random, 16);
                producer.send(new ProducerRecord<>(topic, key, slice(letters, random, valueBytes)));
            }
        }
    }

    private static byte[] slice(byte[] letters, Random random, int size) {
        byte[] bytes = new byte[size];
        System.arraycopy(letters, random.nextInt(letters.length - size), bytes, 0, size);
        return bytes;
    }
}
