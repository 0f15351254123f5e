import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A share consumer that does as told: close, stall MS, subscribe A B, unsubscribe. */
public final class ShareDriver {
    public static void main(String[] arguments) throws Exception {
        Properties properties = Driver.properties(arguments);
        String[] topics = Driver.take(properties, "driver.topics", "").split(" +");
        StringDeserializer text = new StringDeserializer();
        KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties, text, text);
        consumer.subscribe(Arrays.asList(topics));
        Driver driver = new Driver();
        driver.listen();
        Driver.say("started");
        boolean subscribed = true;
        for (boolean open = true; open; ) {
            Driver.Command command = subscribed ? driver.next(0) : driver.next();
            if (command == null) {
                consumer.poll(Duration.ofMillis(100));
                continue;
            }
            switch (command.name) {
                case "close":
                    consumer.close();
                    open = false;
                    break;
                case "unsubscribe":
                    consumer.unsubscribe();
                    subscribed = false;
                    break;
                case "subscribe":
                    consumer.subscribe(Arrays.asList(command.words()));
                    subscribed = true;
                    break;
                case "stall":
                    Thread.sleep(Long.parseLong(command.argument));
                    break;
                default:
                    Driver.say("error unknown command " + command.name);
            }
            Driver.say("done " + command.name);
        }
        Runtime.getRuntime().halt(0);
    }
}
