import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;

/** What a broker tells an admin client of a topic or a group; a JSON line a finding. */
final class Inspect {
    private Inspect() {}

    /** Of each partition and each thing asked for, the offset; -1 where there is none. */
    static void offsets(JsonNode request, PrintStream out) throws Exception {
        IsolationLevel isolation = IsolationLevel.valueOf(request.get("isolation").asText().toUpperCase());
        try (Admin admin = admin(request)) {
            List<TopicPartition> partitions = partitions(admin, request);
            for (JsonNode asked : request.get("asked")) {
                OffsetSpec spec = spec(asked);
                var specs = partitions.stream().collect(Collectors.toMap(Function.identity(), p -> spec));
                var found = admin.listOffsets(specs, new ListOffsetsOptions(isolation));
                for (TopicPartition partition : partitions) {
                    var info = found.partitionResult(partition).get();
                    print(out, "partition", partition.partition(), "asked", asked, "offset", info.offset(),
                            "timestamp_ms", info.timestamp(), "leader_epoch", info.leaderEpoch().orElse(null));
                }
            }
        }
    }

    private static OffsetSpec spec(JsonNode asked) {
        return switch (asked.asText()) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "max_timestamp" -> OffsetSpec.maxTimestamp();
            default -> OffsetSpec.forTimestamp(asked.asLong());
        };
    }

    /** What a group committed last. The client waits where the coordinator still loads. */
    static void committed(JsonNode request, PrintStream out) throws Exception {
        try (Admin admin = admin(request)) {
            var offsets = admin.listConsumerGroupOffsets(request.get("group").asText()).partitionsToOffsetAndMetadata().get();
            for (var entry : offsets.entrySet()) {
                print(out, "topic", entry.getKey().topic(), "partition", entry.getKey().partition(),
                        "offset", entry.getValue().offset(), "metadata", entry.getValue().metadata());
            }
        }
    }

    /** The producers that the leaders of a topic's partitions know. */
    static void producers(JsonNode request, PrintStream out) throws Exception {
        try (Admin admin = admin(request)) {
            for (var entry : admin.describeProducers(partitions(admin, request)).all().get().entrySet()) {
                for (ProducerState state : entry.getValue().activeProducers()) {
                    print(out, "partition", entry.getKey().partition(), "producer_id", state.producerId(),
                            "epoch", state.producerEpoch(), "last_sequence", state.lastSequence(),
                            "last_timestamp_ms", state.lastTimestamp(),
                            "coordinator_epoch", state.coordinatorEpoch().orElse(-1),
                            "txn_first_offset", state.currentTransactionStartOffset().orElse(-1));
                }
            }
        }
    }

    private static Admin admin(JsonNode request) {
        Properties connection = new Properties();
        connection.put("bootstrap.servers", request.get("bootstrap").asText());
        return Admin.create(connection);
    }

    private static List<TopicPartition> partitions(Admin admin, JsonNode request) throws Exception {
        String topic = request.get("topic").asText();
        var description = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        return description.partitions().stream().map(p -> new TopicPartition(topic, p.partition())).toList();
    }

    private static void print(PrintStream out, Object... namesAndValues) throws JsonProcessingException {
        Map<Object, Object> row = new LinkedHashMap<>();
        for (int at = 0; at < namesAndValues.length; at += 2) {
            row.put(namesAndValues[at], namesAndValues[at + 1]);
        }
        out.println(Clients.JSON.writeValueAsString(row));
    }
}
