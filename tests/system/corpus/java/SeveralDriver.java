import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Several consumers in one process, each with a thread, as Spring's concurrency starts them. Its own properties:
 * driver.count, driver.topics, driver.members (a file that gets the consumer's number and member id at each
 * assignment), driver.N.KEY (a property of consumer N alone).
 *
 * <p>Commands: "N close", "N open", "N stall MS", "N subscribe A B", "N unsubscribe"; "close" closes all.
 */
public final class SeveralDriver {
    private static final Duration POLL = Duration.ofMillis(100);

    private final int number;
    private final Properties properties;
    private final String[] topics;
    private final String members;
    private final LinkedBlockingQueue<String[]> commands = new LinkedBlockingQueue<>();
    private KafkaConsumer<String, String> consumer;
    private boolean subscribed;

    private SeveralDriver(int number, Properties properties, String topics, String members) {
        this.number = number;
        this.properties = properties;
        this.topics = topics.split(" +");
        this.members = members;
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = Driver.properties(arguments);
        int count = Integer.parseInt(Driver.take(properties, "driver.count", "1"));
        String topics = Driver.take(properties, "driver.topics", "");
        String members = Driver.take(properties, "driver.members", "/dev/null");
        Driver driver = new Driver();
        driver.listen();
        SeveralDriver[] all = new SeveralDriver[count];
        Thread[] threads = new Thread[count];
        for (int index = 0; index < count; index++) {
            all[index] = new SeveralDriver(index + 1, own(properties, index + 1), topics, members);
            threads[index] = new Thread(all[index]::run, "worker-" + (index + 1));
            threads[index].start();
        }
        Driver.say("started");
        while (true) {
            Driver.Command command = driver.next();
            if (command.name.equals("close")) {
                break;
            }
            all[Integer.parseInt(command.name) - 1].commands.add(command.words());
        }
        for (SeveralDriver each : all) {
            each.commands.add(new String[] {"end"});
        }
        for (Thread thread : threads) {
            thread.join();
        }
        Driver.say("done close");
        Runtime.getRuntime().halt(0);
    }

    private static Properties own(Properties common, int number) {
        Properties own = new Properties();
        String start = "driver." + number + ".";
        for (String key : common.stringPropertyNames()) {
            if (!key.startsWith("driver.")) {
                own.putIfAbsent(key, common.getProperty(key));
            } else if (key.startsWith(start)) {
                own.setProperty(key.substring(start.length()), common.getProperty(key));
            }
        }
        return own;
    }

    private void run() {
        try {
            open();
            while (obey(subscribed ? commands.poll() : commands.take())) {
                if (subscribed) {
                    consumer.poll(POLL);
                }
            }
        } catch (Exception failure) {
            Driver.say("failed " + number + " " + failure);
        }
    }

    private boolean obey(String[] command) throws InterruptedException {
        String name = command == null ? "" : command[0];
        if (name.equals("stall")) {
            Thread.sleep(Long.parseLong(command[1]));
        } else if (name.equals("open") && consumer == null) {
            open();
        } else if (name.equals("subscribe") && consumer != null) {
            subscribe(Arrays.copyOfRange(command, 1, command.length));
        } else if (name.equals("unsubscribe") && consumer != null) {
            consumer.unsubscribe();
            subscribed = false;
        } else if ((name.equals("close") || name.equals("end")) && consumer != null) {
            consumer.close();
            consumer = null;
            subscribed = false;
        }
        return !name.equals("end");
    }

    private void open() {
        StringDeserializer text = new StringDeserializer();
        consumer = new KafkaConsumer<>(properties, text, text);
        subscribe(topics);
    }

    private void subscribe(String[] names) {
        consumer.subscribe(Arrays.asList(names), new Listener());
        subscribed = true;
    }

    private final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            try (PrintWriter out = new PrintWriter(new FileWriter(members, true))) {
                out.println(number + " " + consumer.groupMetadata().memberId());
            } catch (IOException failure) {
                Driver.say("failed " + number + " " + failure);
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}
    }
}
