import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.util.Properties;
import org.apache.kafka.connect.cli.ConnectDistributed;

/** A distributed Connect worker, which closes when it is told to. */
public final class ConnectDriver {
    public static void main(String[] arguments) throws Exception {
        Properties properties = Driver.properties(arguments);
        File file = File.createTempFile("worker", ".properties");
        file.deleteOnExit();
        try (OutputStream output = new FileOutputStream(file)) {
            properties.store(output, null);
        }
        Driver driver = new Driver();
        driver.listen();
        Thread worker = new Thread(() -> ConnectDistributed.main(new String[] {file.getPath()}), "worker");
        worker.setDaemon(true);
        worker.start();
        Driver.say("started");
        String name = driver.next().name;
        Driver.say("done " + name);
        System.exit(0); // its shutdown hook leaves the group
    }
}
