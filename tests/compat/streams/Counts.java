import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;

/** Counts the values of topic "words" into topic "counts", until its input ends. */
public class Counts {
    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.put("application.id", "counting");
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("processing.guarantee", arguments[1]);
        settings.put("state.dir", arguments[2]);
        settings.put("num.stream.threads", "2");
        settings.put("commit.interval.ms", "100");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "1000");
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        var builder = new StreamsBuilder();
        KStream<String, String> words = builder.stream("words");
        words.map((key, word) -> KeyValue.pair(word, word))
            .groupByKey()
            .count(Named.as("count"), Materialized.as("store"))
            .toStream()
            .mapValues(count -> "" + count)
            .to("counts");
        var streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        System.in.read();
        streams.close(Duration.ofSeconds(30));
        System.out.println(streams.state());
    }
}
