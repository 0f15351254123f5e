import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** An operator: makes topics, adds partitions, produces, waits for records, and removes a group's members. */
public final class AdminDriver {
    public static void main(String[] arguments) throws Exception {
        Properties properties = Driver.properties(arguments);
        Driver driver = new Driver();
        driver.listen();
        try (Admin admin = Admin.create(properties)) {
            Driver.say("started");
            for (Driver.Command command = driver.next();
                    !command.name.equals("close");
                    command = driver.next()) {
                obey(admin, properties, command);
            }
        }
        Driver.say("done close");
        Runtime.getRuntime().halt(0);
    }

    private static void obey(Admin admin, Properties properties, Driver.Command command) throws Exception {
        String[] words = command.words();
        switch (command.name) {
            case "create-topic":
                NewTopic topic = new NewTopic(words[0], Optional.of(Integer.valueOf(words[1])), Optional.empty());
                admin.createTopics(Collections.singleton(topic)).all().get();
                break;
            case "delete-topic":
                admin.deleteTopics(Collections.singleton(words[0])).all().get();
                break;
            case "set-partitions":
                NewPartitions more = NewPartitions.increaseTo(Integer.parseInt(words[1]));
                admin.createPartitions(Collections.singletonMap(words[0], more)).all().get();
                break;
            case "remove-members":
                admin.removeMembersFromConsumerGroup(words[0], new RemoveMembersFromConsumerGroupOptions())
                        .all().get();
                break;
            case "produce":
                produce(properties, words[0], Integer.parseInt(words[1]));
                break;
            case "await":
                await(properties, words[0], Long.parseLong(words[1]));
                break;
            default:
                Driver.say("error unknown command " + command.name);
                return;
        }
        Driver.say("done " + command.name);
    }

    private static void produce(Properties properties, String topic, int count) {
        StringSerializer text = new StringSerializer();
        Properties ordered = new Properties();
        ordered.putAll(properties);
        // A new topic's leader may refuse the first request and take the one behind it, and refuses the first
        // for ever then (KAFKA-15591).
        ordered.setProperty("max.in.flight.requests.per.connection", "1");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(ordered, text, text)) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, "key-" + i, "value-" + i));
            }
        }
    }

    private static void await(Properties properties, String topic, long count) throws InterruptedException {
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> reader = new KafkaConsumer<>(properties, bytes, bytes)) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo partition : reader.partitionsFor(topic)) {
                partitions.add(new TopicPartition(topic, partition.partition()));
            }
            while (reader.endOffsets(partitions).values().stream().mapToLong(Long::longValue).sum() < count) {
                Thread.sleep(50);
            }
        }
    }
}
