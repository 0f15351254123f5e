import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;

/** A Streams application with one persistent store per partition of driver.topics. */
public final class StreamsDriver {
    public static void main(String[] arguments) throws Exception {
        Properties properties = Driver.properties(arguments);
        String topic = Driver.take(properties, "driver.topics", "");
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        StreamsBuilder builder = new StreamsBuilder();
        builder
                .stream(topic, Consumed.with(Serdes.String(), Serdes.String()))
                .groupByKey()
                .count(Materialized.as("counts"));

        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setStateListener((next, previous) -> Driver.say("state " + next));
        Driver driver = new Driver();
        driver.listen();
        Driver.say("started");
        streams.start();
        boolean open = true;
        while (open) {
            open = obey(streams, driver.next());
        }
        Runtime.getRuntime().halt(0);
    }

    private static boolean obey(KafkaStreams streams, Driver.Command command) {
        switch (command.name) {
            case "close":
                streams.close(Duration.ofSeconds(20));
                break;
            case "add-thread":
                streams.addStreamThread();
                break;
            case "remove-thread":
                streams.removeStreamThread();
                break;
            default:
                Driver.say("error unknown command " + command.name);
                return true;
        }
        Driver.say("done " + command.name);
        return !command.name.equals("close");
    }
}
