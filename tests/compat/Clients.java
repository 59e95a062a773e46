import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What tests ask of Kafka's own clients, one command an argument: create, settings, alter, produce, produce-acks, transact (ends the program), delete-records, consume, offset-at, share. */
public class Clients {
    private static String servers;

    public static void main(String[] args) throws Exception {
        servers = args[0];
        for (int at = 1; at < args.length; at++) {
            String[] words = args[at].split(" ");
            switch (words[0]) {
                case "create" -> create(words[1], words.length > 2 ? words[2] : "", number(words, 3));
                case "settings" -> settings(words[1]);
                case "alter" -> alter(words[1], words[2]);
                case "produce" -> produce(words[1], words[2], Integer.parseInt(words[3]), number(words, 4));
                case "produce-acks" -> produceAcks(words[1], words[2], Integer.parseInt(words[3]));
                case "offset-at" -> offsetAt(words[1], Long.parseLong(words[2]));
                case "share" -> share(words[1], words[2], Integer.parseInt(words[3]));
                case "produce-for" -> produceFor(Integer.parseInt(words[1]), words[2].split(","), words[3]);
                case "produce-rounds" -> produceRounds(words[1].split(","), words[2]);
                case "transact" -> transact(words[1], Integer.parseInt(words[2]));
                case "delete-records" -> deleteRecords(words[1], Long.parseLong(words[2]));
                case "consume" -> consume(words[1], words[2], words.length > 3 ? number(words, 3) : 0);
                default -> throw new IllegalArgumentException(args[at]);
            }
        }
    }

    private static int number(String[] words, int at) {
        return words.length > at ? Integer.parseInt(words[at]) : 1;
    }

    private static Properties properties(String... more) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        for (int at = 0; at < more.length; at += 2) {
            properties.put(more[at], more[at + 1]);
        }
        return properties;
    }

    private static void create(String topic, String settings, int partitions) throws Exception {
        Map<String, String> config = new HashMap<>();
        for (String pair : settings.isEmpty() ? new String[0] : settings.split(",")) {
            config.put(pair.split("=")[0], pair.split("=")[1]);
        }
        try (Admin admin = Admin.create(properties())) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(config))).all().get();
        }
    }

    /** Print the settings that a topic has of its own, as key=value, and end. */
    private static void settings(String topic) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (Admin admin = Admin.create(properties())) {
            for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
                if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG) {
                    System.out.println(entry.name() + "=" + entry.value());
                }
            }
        }
        System.out.println("end");
    }

    /** Set key=value, or reset a key. */
    private static void alter(String topic, String setting) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        String[] words = setting.split("=");
        var type = words.length > 1 ? AlterConfigOp.OpType.SET : AlterConfigOp.OpType.DELETE;
        var change = new AlterConfigOp(new ConfigEntry(words[0], words.length > 1 ? words[1] : null), type);
        try (Admin admin = Admin.create(properties())) {
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
        }
    }

    private static void deleteRecords(String topic, long offset) throws Exception {
        try (Admin admin = Admin.create(properties())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(offset))).all().get();
        }
    }

    /** To the partitions in turn; with 0 of them, each record to the one that its key selects. */
    private static void produce(String topic, String codec, int count, int partitions) throws Exception {
        Properties properties = properties("compression.type", codec, "linger.ms", "20");
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(properties, bytes, bytes)) {
            for (int number = 0; number < count; number++) {
                producer.send(record(topic, partitions == 0 ? null : number % partitions, "java-", number));
            }
        }
    }

    /** To partition 0, by a producer that is not idempotent; prints the offset that each record was answered with. */
    private static void produceAcks(String topic, String acks, int count) throws Exception {
        Properties properties = properties("acks", acks, "enable.idempotence", "false");
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(properties, bytes, bytes)) {
            for (int number = 0; number < count; number++) {
                System.out.println(producer.send(record(topic, 0, "java-", number)).get().offset());
            }
        }
    }

    private static void offsetAt(String topic, long time) {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (var consumer = consumer()) {
            System.out.println(consumer.offsetsForTimes(Map.of(partition, time)).get(partition).offset());
        }
    }

    /** Two members of a group that read all of a topic; prints how many partitions each has, and the keys that came, sorted. */
    private static void share(String topic, String group, int partitions) {
        List<String> keys = new ArrayList<>();
        String[] settings = {"group.id", group, "auto.offset.reset", "earliest", "heartbeat.interval.ms", "200"};
        try (var second = consumer(settings)) {
            try (var first = consumer(settings)) {
                first.subscribe(List.of(topic));
                while (first.assignment().size() < partitions) {
                    take(first, keys);
                }
                System.out.println("one " + first.assignment().size());
                second.subscribe(List.of(topic));
                while (first.assignment().size() != partitions / 2 || second.assignment().size() != partitions / 2) {
                    take(first, keys);
                    take(second, keys);
                }
                System.out.println("two " + first.assignment().size() + " " + second.assignment().size());
            }
            while (second.assignment().size() < partitions) {
                take(second, keys);
            }
            long end = second.endOffsets(second.assignment()).values().stream().mapToLong(Long::longValue).sum();
            while (second.assignment().stream().mapToLong(second::position).sum() < end) {
                take(second, keys);
            }
            System.out.println("other " + second.assignment().size());
        }
        Collections.sort(keys);
        keys.forEach(System.out::println);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String... settings) {
        var bytes = new ByteArrayDeserializer();
        return new KafkaConsumer<>(properties(settings), bytes, bytes);
    }

    private static void take(KafkaConsumer<byte[], byte[]> consumer, List<String> keys) {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
            keys.add(new String(record.key(), StandardCharsets.UTF_8));
        }
    }

    /** A record whose time and value follow from the number in its key. */
    private static ProducerRecord<byte[], byte[]> record(String topic, Integer partition, String prefix, int number) {
        byte[] key = (prefix + number).getBytes(StandardCharsets.UTF_8);
        byte[] value = new byte[number % 100];
        Arrays.fill(value, (byte) number);
        return new ProducerRecord<>(topic, partition, 1_700_000_000_000L + number, key, value);
    }

    /** Transactions, each third one aborted; the last one stays open for as long as Kafka lets it. */
    private static void transact(String topic, int count) {
        String longest = "900000";
        Properties properties = properties("transactional.id", topic, "transaction.timeout.ms", longest);
        var bytes = new ByteArraySerializer();
        var producer = new KafkaProducer<>(properties, bytes, bytes);
        producer.initTransactions();
        int committed = 0;
        for (int number = 0; number < count; number++) {
            committed += transaction(producer, topic, number % 3 == 0, committed);
        }
        producer.beginTransaction();
        producer.send(record(topic, 0, "open-", 0));
        producer.flush();
        Runtime.getRuntime().halt(0); // closing would abort it
    }

    /** Fifty records; returns how many of them were committed. */
    private static int transaction(KafkaProducer<byte[], byte[]> producer, String topic, boolean isAborted, int first) {
        producer.beginTransaction();
        for (int at = 0; at < 50; at++) {
            producer.send(record(topic, 0, isAborted ? "aborted-" : "java-", first + at));
        }
        if (isAborted) {
            producer.abortTransaction();
            return 0;
        }
        producer.commitTransaction();
        return 50;
    }

    /** Round after round for some seconds; tells how many. */
    private static void produceFor(int seconds, String[] topics, String transacted) throws Exception {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        int rounds = 0;
        int committed = 0;
        try (var producer = transactional()) {
            while (System.nanoTime() < end) {
                committed += round(producer, rounds, topics, transacted, committed);
                rounds++;
            }
        }
        System.out.println("rounds " + rounds + " committed " + committed);
    }

    /** A round for each line of the input; prints after each how many there were. */
    private static void produceRounds(String[] topics, String transacted) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        int committed = 0;
        try (var producer = transactional()) {
            for (int rounds = 0; input.readLine() != null; rounds++) {
                committed += round(producer, rounds, topics, transacted, committed);
                System.out.println("rounds " + (rounds + 1) + " committed " + committed);
            }
        }
    }

    private static KafkaProducer<byte[], byte[]> transactional() {
        Properties properties = properties("transactional.id", "tests", "linger.ms", "1");
        var bytes = new ByteArraySerializer();
        var producer = new KafkaProducer<>(properties, bytes, bytes);
        producer.initTransactions();
        return producer;
    }

    /** 5,000 records to each topic, and 20 transactions; returns how many records were committed. */
    private static int round(KafkaProducer<byte[], byte[]> producer, int rounds, String[] topics, String transacted, int first)
            throws Exception {
        String[] codecs = {"none", "zstd", "lz4", "snappy", "gzip"};
        for (String topic : topics) {
            produce(topic, codecs[rounds % codecs.length], 5000, 1);
        }
        int committed = 0;
        for (int number = 0; number < 20; number++) {
            committed += transaction(producer, transacted, number % 3 == 0, first + committed);
        }
        return committed;
    }

    private static void consume(String topic, String isolation, int number) {
        Properties properties = properties("isolation.level", isolation, "enable.auto.commit", "false");
        var bytes = new ByteArrayDeserializer();
        TopicPartition partition = new TopicPartition(topic, number);
        try (var consumer = new KafkaConsumer<>(properties, bytes, bytes)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                consumer.poll(Duration.ofSeconds(1)).forEach(Clients::print);
            }
        }
        System.out.println("end");
    }

    private static void print(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder line = new StringBuilder();
        line.append(record.offset()).append('\t').append(record.timestamp());
        line.append('\t').append(text(record.key())).append('\t').append(text(record.value()));
        for (Header header : record.headers()) {
            line.append('\t').append(text(header.key().getBytes(StandardCharsets.UTF_8)));
            line.append('\t').append(text(header.value()));
        }
        System.out.println(line);
    }

    private static String text(byte[] data) {
        return data == null ? "null" : "=" + Base64.getEncoder().encodeToString(data);
    }
}
