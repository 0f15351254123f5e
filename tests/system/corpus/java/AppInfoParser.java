package org.apache.kafka.common.utils;

/** Kafka 4.4 has moved this class; the file connectors of 4.3 ask it for their version. */
public final class AppInfoParser {
    private AppInfoParser() {}

    public static String getVersion() {
        return "4.3.1";
    }
}
