package member;

import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.kafka.annotation.KafkaListener;

/** A listener with all defaults of its logging; a record of its name blocks it. */
@SpringBootApplication
public class Member {
    @Value("${MEMBER}")
    private String member;

    public static void main(String[] arguments) {
        SpringApplication.run(Member.class, arguments);
    }

    /** Blocks as slow processing does, if the record names this member: "NAME UNTIL" (ms). */
    @KafkaListener(topics = "${TOPIC}", groupId = "${GROUP}")
    public void handle(String record) throws InterruptedException {
        String[] words = record.split(" ");
        if (words[0].equals(member)) {
            Thread.sleep(Math.max(0, Long.parseLong(words[1]) - System.currentTimeMillis()));
        }
    }
}
