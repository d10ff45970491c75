import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads every partition of a topic up to the end the broker names when asked first; prints a JSON line a record. */
final class Consume {
    private Consume() {}

    static void run(JsonNode request, PrintStream out) throws JsonProcessingException {
        Properties properties = new Properties();
        request.get("props").fields().forEachRemaining(e -> properties.put(e.getKey(), e.getValue().asText()));
        long deadline = System.currentTimeMillis() + request.get("timeout_ms").asLong();
        try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo info : consumer.partitionsFor(request.get("topic").asText())) {
                partitions.add(new TopicPartition(info.topic(), info.partition()));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            request.get("start").fields().forEachRemaining(e -> consumer.seek(
                    new TopicPartition(request.get("topic").asText(), Integer.parseInt(e.getKey())), e.getValue().asLong()));
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("deadline passed before the end offsets " + ends);
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    if (record.offset() < ends.get(new TopicPartition(record.topic(), record.partition()))) {
                        out.println(Clients.JSON.writeValueAsString(asMap(record)));
                    }
                }
            }
        }
    }

    private static Map<String, Object> asMap(ConsumerRecord<byte[], byte[]> record) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("partition", record.partition());
        fields.put("offset", record.offset());
        fields.put("timestamp_ms", record.timestamp());
        fields.put("timestamp_type", record.timestampType().toString());
        fields.put("key", record.key());
        fields.put("value", record.value());
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add(Arrays.asList(header.key(), header.value()));
        }
        fields.put("headers", headers);
        fields.put("leader_epoch", record.leaderEpoch().orElse(null));
        return fields;
    }
}
