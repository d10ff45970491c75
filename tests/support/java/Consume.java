import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedWriter;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
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
public final class Consume {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        JsonNode request = JSON.readTree(System.in);
        Properties properties = new Properties();
        request.get("props").fields().forEachRemaining(e -> properties.put(e.getKey(), e.getValue().asText()));
        long deadline = System.currentTimeMillis() + request.get("timeout_ms").asLong();
        try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                var out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8))) {
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
                        out.write(JSON.writeValueAsString(asMap(record)));
                        out.newLine();
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
