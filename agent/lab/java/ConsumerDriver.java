import java.lang.reflect.InvocationTargetException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Properties;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A consumer that does as told. Its own properties: driver.topics, driver.revoke.ms (a slow callback). */
public final class ConsumerDriver {
    private static final Duration POLL = Duration.ofMillis(100);

    private final Driver driver = new Driver();
    private final KafkaConsumer<String, String> consumer;
    private final long revokeMs;
    private boolean subscribed;

    private ConsumerDriver(Properties properties) {
        revokeMs = Long.parseLong(Driver.take(properties, "driver.revoke.ms", "0"));
        String topics = Driver.take(properties, "driver.topics", "");
        consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
        if (!topics.isEmpty()) {
            subscribe(topics.split(" +"));
        }
    }

    public static void main(String[] arguments) throws Exception {
        new ConsumerDriver(Driver.properties(arguments)).run();
    }

    private void run() throws Exception {
        driver.listen();
        Driver.say("started");
        boolean open = true;
        while (open) {
            Driver.Command command = subscribed ? driver.next(0) : driver.next();
            if (command != null) {
                open = obey(command);
            } else {
                consumer.poll(POLL);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private boolean obey(Driver.Command command) throws Exception {
        switch (command.name) {
            case "close":
                consumer.close();
                break;
            case "unsubscribe":
                consumer.unsubscribe();
                subscribed = false;
                break;
            case "subscribe":
                subscribe(command.words());
                break;
            case "enforce":
                enforce(command.argument);
                break;
            case "stall":
                Thread.sleep(Long.parseLong(command.argument));
                break;
            default:
                Driver.say("error unknown command " + command.name);
                return true;
        }
        Driver.say("done " + command.name);
        return !command.name.equals("close");
    }

    /** Topics, or one pattern as re:PATTERN. */
    private void subscribe(String[] topics) {
        if (topics[0].startsWith("re:")) {
            consumer.subscribe(Pattern.compile(topics[0].substring(3)), new Listener());
        } else {
            consumer.subscribe(Arrays.asList(topics), new Listener());
        }
        subscribed = true;
    }

    /** The reason exists since Kafka 3.2 (KIP-800). */
    private void enforce(String reason) throws IllegalAccessException, InvocationTargetException {
        try {
            KafkaConsumer.class.getMethod("enforceRebalance", String.class).invoke(consumer, reason);
        } catch (NoSuchMethodException older) {
            consumer.enforceRebalance();
        }
    }

    private final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell("revoked", partitions);
            try {
                Thread.sleep(revokeMs);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            tell("lost", partitions);
        }

        private void tell(String event, Collection<TopicPartition> partitions) {
            Driver.say(event + " " + partitions.stream().map(Object::toString).sorted().collect(Collectors.joining(" ")));
        }
    }
}
