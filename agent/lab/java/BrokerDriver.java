import java.io.PrintStream;

/**
 * Formats the log folder where it is not yet, and starts a broker, in one process.
 * Arguments: its server.properties and the cluster id, which may begin with a dash.
 */
public final class BrokerDriver {
    public static void main(String[] arguments) throws Exception {
        String[] format = {
            "format", "--ignore-formatted", "--cluster-id=" + arguments[1], "--config=" + arguments[0]
        };
        Class.forName("kafka.tools.StorageTool")
                .getMethod("execute", String[].class, PrintStream.class)
                .invoke(null, format, System.err);
        new Driver().listen();
        String[] server = {arguments[0]};
        Class.forName("kafka.Kafka").getMethod("main", String[].class).invoke(null, (Object) server);
    }
}
