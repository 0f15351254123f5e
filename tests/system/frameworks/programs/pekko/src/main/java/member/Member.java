package member;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.pekko.actor.ActorSystem;
import org.apache.pekko.actor.CoordinatedShutdown;
import org.apache.pekko.kafka.ConsumerSettings;
import org.apache.pekko.kafka.Subscriptions;
import org.apache.pekko.kafka.javadsl.Consumer;
import org.apache.pekko.stream.javadsl.Sink;

/** A stream of Pekko Connectors with the logging of Pekko's quickstart; a record of its name blocks it. */
public final class Member {
    private static final String NAME = System.getenv("MEMBER");

    private Member() {}

    public static void main(String[] arguments) {
        ActorSystem system = ActorSystem.create("member");
        ConsumerSettings<String, String> settings =
                ConsumerSettings.create(system, new StringDeserializer(), new StringDeserializer())
                        .withBootstrapServers(System.getenv("BOOTSTRAP"))
                        .withGroupId(System.getenv("GROUP"))
                        .withClientId(NAME)
                        .withProperty("auto.offset.reset", "earliest")
                        .withProperty("session.timeout.ms", "6000")
                        .withProperty("heartbeat.interval.ms", "1000")
                        .withProperty("max.poll.interval.ms", "6000");
        Consumer.Control control =
                Consumer.plainSource(settings, Subscriptions.topics(System.getenv("TOPIC")))
                        .to(Sink.foreach(Member::handle))
                        .run(system);
        CoordinatedShutdown.get(system)
                .addTask(
                        CoordinatedShutdown.PhaseServiceStop(),
                        "consumer",
                        () -> control.shutdown());
    }

    /** Blocks as slow processing does, if the record names this member: "NAME UNTIL" (ms). */
    private static void handle(ConsumerRecord<String, String> record) throws InterruptedException {
        String[] words = record.value().split(" ");
        if (words[0].equals(NAME)) {
            Thread.sleep(Math.max(0, Long.parseLong(words[1]) - System.currentTimeMillis()));
        }
    }
}
