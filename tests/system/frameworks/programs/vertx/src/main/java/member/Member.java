package member;

import io.vertx.core.Vertx;
import io.vertx.kafka.client.consumer.KafkaConsumer;
import io.vertx.kafka.client.consumer.KafkaConsumerRecord;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/** A consumer of Vert.x, whose default logging is that of java.util.logging; a record of its name blocks it. */
public final class Member {
    private static final String NAME = System.getenv("MEMBER");

    private Member() {}

    public static void main(String[] arguments) {
        Map<String, String> settings = new HashMap<>();
        settings.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        settings.put("group.id", System.getenv("GROUP"));
        settings.put("client.id", NAME);
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "1000");
        settings.put("max.poll.interval.ms", "6000");
        Vertx vertx = Vertx.vertx();
        KafkaConsumer<String, String> consumer = KafkaConsumer.create(vertx, settings);
        consumer.handler(Member::handle);
        consumer.subscribe(System.getenv("TOPIC"));
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.close().onComplete(done -> closed.countDown());
            try {
                closed.await();
            } catch (InterruptedException stop) {
                Thread.currentThread().interrupt();
            }
        }));
    }

    /** Blocks as slow processing does, if the record names this member: "NAME UNTIL" (ms). */
    private static void handle(KafkaConsumerRecord<String, String> record) {
        String[] words = record.value().split(" ");
        if (words[0].equals(NAME)) {
            try {
                Thread.sleep(Math.max(0, Long.parseLong(words[1]) - System.currentTimeMillis()));
            } catch (InterruptedException stop) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
