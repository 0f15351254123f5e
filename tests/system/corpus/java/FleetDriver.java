import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Many consumers in one process: driver.count of them, client.id-1 and so on, until it is told to close. */
public final class FleetDriver {
    public static void main(String[] arguments) throws Exception {
        Properties properties = Driver.properties(arguments);
        int count = Integer.parseInt(Driver.take(properties, "driver.count", "1"));
        String topic = Driver.take(properties, "driver.topics", "");
        String clientId = properties.getProperty("client.id");
        Driver driver = new Driver();
        driver.listen();
        for (int number = 1; number <= count; number++) {
            Properties own = new Properties();
            own.putAll(properties);
            own.setProperty("client.id", clientId + "-" + number);
            Thread thread = new Thread(() -> consume(own, topic), own.getProperty("client.id"));
            thread.setDaemon(true);
            thread.start();
        }
        Driver.say("started");
        Driver.say("done " + driver.next().name);
        Runtime.getRuntime().halt(0);
    }

    private static void consume(Properties properties, String topic) {
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, text, text)) {
            consumer.subscribe(Arrays.asList(topic));
            while (true) {
                consumer.poll(Duration.ofMillis(500));
            }
        } catch (RuntimeException failure) {
            Driver.say("error " + failure);
        }
    }
}
