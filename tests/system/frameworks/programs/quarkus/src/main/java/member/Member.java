package member;

import io.smallrye.common.annotation.Blocking;
import jakarta.enterprise.context.ApplicationScoped;
import org.eclipse.microprofile.config.inject.ConfigProperty;
import org.eclipse.microprofile.reactive.messaging.Incoming;

/** A consumer of a channel with all defaults of its logging; a record of its name blocks it. */
@ApplicationScoped
public class Member {
    @ConfigProperty(name = "MEMBER")
    String member;

    /** Blocks as slow processing does, if the record names this member: "NAME UNTIL" (ms). */
    @Incoming("orders")
    @Blocking
    public void handle(String record) throws InterruptedException {
        String[] words = record.split(" ");
        if (words[0].equals(member)) {
            Thread.sleep(Math.max(0, Long.parseLong(words[1]) - System.currentTimeMillis()));
        }
    }
}
