package member;

import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.main.Main;

/** A route of Camel Main with the logging of its archetype; a record of its name blocks it. */
public final class Member {
    private static final String NAME = System.getenv("MEMBER");

    private Member() {}

    public static void main(String[] arguments) throws Exception {
        Main main = new Main();
        main.configure().addRoutesBuilder(new RouteBuilder() {
            @Override
            public void configure() {
                from("kafka:{{env:TOPIC}}?brokers={{env:BOOTSTRAP}}&groupId={{env:GROUP}}"
                        + "&clientId={{env:MEMBER}}&autoOffsetReset=earliest&sessionTimeoutMs=6000"
                        + "&heartbeatIntervalMs=1000&maxPollIntervalMs=6000")
                        .process(exchange -> handle(exchange.getMessage().getBody(String.class)));
            }
        });
        main.run(arguments);
    }

    /** Blocks as slow processing does, if the record names this member: "NAME UNTIL" (ms). */
    private static void handle(String record) throws InterruptedException {
        String[] words = record.split(" ");
        if (words[0].equals(NAME)) {
            Thread.sleep(Math.max(0, Long.parseLong(words[1]) - System.currentTimeMillis()));
        }
    }
}
