import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Locale;
import java.util.Properties;
import java.util.Random;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A consumer that reports its events with their times, as librdkafka_member.py does. Its own properties: driver.topics,
 * work.s (how long it works between two polls on average, once it has partitions), record.s (how long it works on
 * each record) and hold (Java starts, reports that it is ready, and makes its consumer at the command join). Its other
 * command is close.
 */
public final class MemberDriver {
    public static void main(String[] arguments) throws Exception {
        Properties properties = Driver.properties(arguments);
        String topic = Driver.take(properties, "driver.topics", "");
        long workMs = Math.round(1000 * Double.parseDouble(Driver.take(properties, "work.s", "0")));
        long recordMs = Math.round(1000 * Double.parseDouble(Driver.take(properties, "record.s", "0")));
        boolean hold = Boolean.parseBoolean(Driver.take(properties, "hold", "false"));
        Driver driver = new Driver();
        driver.listen();
        if (hold) {
            report("ready", "");
            while (driver.next(1000) == null) {}
        }
        StringDeserializer text = new StringDeserializer();
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, text, text);
        consumer.subscribe(Arrays.asList(topic), new Listener());
        Random chance = new Random();
        long pauseMs = 0;
        while (driver.next(pauseMs) == null) {
            int records = consumer.poll(Duration.ofMillis(100)).count();
            pauseMs = consumer.assignment().isEmpty() ? 0 : Math.round(workMs * (0.5 + chance.nextDouble()));
            pauseMs += records * recordMs;
        }
        consumer.close();
        report("closed", "");
        Runtime.getRuntime().halt(0);
    }

    private static void report(String event, String partitions) {
        Driver.say(String.format(Locale.ROOT, "%s %.3f %s", event, System.currentTimeMillis() / 1000.0, partitions));
    }

    private static final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            report("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            report("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            report("lost", partitions);
        }

        private static void report(String event, Collection<TopicPartition> partitions) {
            MemberDriver.report(
                    event,
                    partitions.stream()
                            .map(each -> Integer.toString(each.partition()))
                            .collect(Collectors.joining(",")));
        }
    }
}
