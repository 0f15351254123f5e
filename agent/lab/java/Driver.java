import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * What all drivers share: properties from the command line (key=value), commands from stdin, events to stdout.
 * The end of stdin is the end of the process, so no driver outlives the one who started it.
 */
final class Driver {
    /** One line of stdin: a word and the rest. */
    static final class Command {
        final String name;
        final String argument;

        Command(String line) {
            String[] parts = line.trim().split(" ", 2);
            name = parts[0];
            argument = parts.length > 1 ? parts[1].trim() : "";
        }

        String[] words() {
            return argument.split(" +");
        }
    }

    private final BlockingQueue<Command> commands = new LinkedBlockingQueue<>();

    static Properties properties(String[] arguments) {
        Properties properties = new Properties();
        for (String argument : arguments) {
            int equals = argument.indexOf('=');
            properties.setProperty(argument.substring(0, equals), argument.substring(equals + 1));
        }
        return properties;
    }

    /** Removes a key that is the driver's own and returns its value. */
    static String take(Properties properties, String key, String otherwise) {
        Object value = properties.remove(key);
        return value == null ? otherwise : value.toString();
    }

    static synchronized void say(String event) {
        System.out.println(event);
        System.out.flush();
    }

    /** Reads stdin on a thread of its own; its end halts the process, whatever the others do. */
    void listen() {
        Thread reader = new Thread(this::read, "stdin");
        reader.setDaemon(true);
        reader.start();
    }

    /** Waits at most the given time for a command; null if there is none. */
    Command next(long timeoutMs) throws InterruptedException {
        return commands.poll(timeoutMs, TimeUnit.MILLISECONDS);
    }

    Command next() throws InterruptedException {
        return commands.take();
    }

    private void read() {
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                commands.add(new Command(line));
            }
        } catch (IOException broken) {
            say("error stdin " + broken);
        }
        Runtime.getRuntime().halt(3);
    }
}
