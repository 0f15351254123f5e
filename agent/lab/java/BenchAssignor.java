import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.TopicPartition;

/**
 * An assignor of a user: it deals partitions out in turn. While bench.folder has the file "hold" it takes its time,
 * and a file "fail" makes it fail once.
 */
public final class BenchAssignor implements ConsumerPartitionAssignor, Configurable {
    private File folder;
    private String client;

    @Override
    public void configure(Map<String, ?> configs) {
        folder = new File(configs.get("bench.folder").toString());
        client = configs.get("client.id").toString();
    }

    @Override
    public String name() {
        return "bench";
    }

    @Override
    public ByteBuffer subscriptionUserData(Set<String> topics) {
        return text("weight 1 of " + client);
    }

    @Override
    public GroupAssignment assign(Cluster cluster, GroupSubscription subscriptions) {
        Driver.say("assigning");
        while (new File(folder, "hold").exists()) {
            try {
                Thread.sleep(20);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }
        if (new File(folder, "fail").delete()) {
            throw new IllegalStateException("the bench has no assignment");
        }
        return new GroupAssignment(deal(cluster, subscriptions.groupSubscription()));
    }

    private Map<String, Assignment> deal(Cluster cluster, Map<String, Subscription> members) {
        List<String> names = new ArrayList<>(new TreeSet<>(members.keySet()));
        Map<String, List<TopicPartition>> owned = new HashMap<>();
        Set<String> topics = new TreeSet<>();
        members.values().forEach(each -> topics.addAll(each.topics()));
        int next = 0;
        for (String topic : topics) {
            Integer count = cluster.partitionCountForTopic(topic);
            for (int i = 0; i < (count == null ? 0 : count); i++) {
                String member = names.get(next++ % names.size());
                owned.computeIfAbsent(member, key -> new ArrayList<>()).add(new TopicPartition(topic, i));
            }
        }
        Map<String, Assignment> assignments = new HashMap<>();
        for (String name : names) {
            List<TopicPartition> partitions = owned.getOrDefault(name, Collections.emptyList());
            assignments.put(name, new Assignment(partitions, text("by " + client)));
        }
        return assignments;
    }

    private static ByteBuffer text(String text) {
        return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
    }
}
