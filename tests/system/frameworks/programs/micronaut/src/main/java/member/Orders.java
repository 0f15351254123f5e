package member;

import io.micronaut.configuration.kafka.annotation.KafkaListener;
import io.micronaut.configuration.kafka.annotation.OffsetReset;
import io.micronaut.configuration.kafka.annotation.Topic;
import io.micronaut.context.annotation.Value;

/** A record that names this member blocks it as slow processing does: "NAME UNTIL" (ms). */
@KafkaListener(groupId = "${group}", clientId = "${member}", offsetReset = OffsetReset.EARLIEST)
class Orders {
    @Value("${member}")
    String member;

    @Topic("${topic}")
    void handle(String text) throws InterruptedException {
        String[] words = text.split(" ");
        if (words.length == 2 && words[0].equals(member)) {
            Thread.sleep(Math.max(0, Long.parseLong(words[1]) - System.currentTimeMillis()));
        }
    }
}
