import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Follows the steps of a request with one producer and prints where each record went, a JSON line each, in order. */
final class Produce {
    private Produce() {}

    static void run(JsonNode request, PrintStream out) throws Exception {
        Properties properties = new Properties();
        request.get("props").fields().forEachRemaining(e -> properties.put(e.getKey(), e.getValue().asText()));
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (properties.containsKey("transactional.id")) {
                producer.initTransactions();
            }
            for (JsonNode step : request.get("steps")) {
                step(producer, step, sent);
            }
            producer.flush();
        }
        if (properties.containsKey("transactional.id")) {
            awaitMarkers(properties);
        }
        for (Future<RecordMetadata> future : sent) {
            out.println(Clients.JSON.writeValueAsString(asMap(future.get())));
        }
    }

    /** A commit or abort is answered when it is decided; its markers are written after that. */
    private static void awaitMarkers(Properties properties) throws Exception {
        String id = properties.getProperty("transactional.id");
        Properties connection = new Properties();
        connection.put("bootstrap.servers", properties.get("bootstrap.servers"));
        try (Admin admin = Admin.create(connection)) {
            TransactionState state = TransactionState.PREPARE_COMMIT;
            while (state == TransactionState.PREPARE_COMMIT || state == TransactionState.PREPARE_ABORT) {
                state = admin.describeTransactions(List.of(id)).description(id).get().state();
            }
        }
    }

    private static void step(KafkaProducer<byte[], byte[]> producer, JsonNode step, List<Future<RecordMetadata>> sent)
            throws Exception {
        switch (step.get("do").asText()) {
            case "send" -> sent.add(producer.send(record(step)));
            case "flush" -> producer.flush();
            case "begin" -> producer.beginTransaction();
            case "commit" -> producer.commitTransaction();
            case "abort" -> {
                // Without the flush the client throws away what it has not sent yet, and the log holds no aborted records.
                producer.flush();
                producer.abortTransaction();
            }
            case "offsets" -> producer.sendOffsetsToTransaction(
                    offsets(step.get("offsets")), new ConsumerGroupMetadata(step.get("group").asText()));
            case "vanish" -> {
                // Closed at once a producer says no word to the coordinator; closed with patience it would abort.
                producer.flush();
                producer.close(Duration.ZERO);
            }
            default -> throw new IllegalArgumentException("unknown step " + step);
        }
    }

    private static ProducerRecord<byte[], byte[]> record(JsonNode step) throws IOException {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : step.get("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), header.get(1).binaryValue()));
        }
        JsonNode partition = step.get("partition");
        JsonNode timestamp = step.get("timestamp_ms");
        return new ProducerRecord<>(
                step.get("topic").asText(),
                partition.isNull() ? null : Integer.valueOf(partition.asInt()),
                timestamp.isNull() ? null : Long.valueOf(timestamp.asLong()),
                step.get("key").binaryValue(),
                step.get("value").binaryValue(),
                headers);
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode rows) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode row : rows) {
            offsets.put(new TopicPartition(row.get(0).asText(), row.get(1).asInt()), new OffsetAndMetadata(row.get(2).asLong()));
        }
        return offsets;
    }

    private static Map<String, Object> asMap(RecordMetadata where) {
        return Map.of(
                "topic", where.topic(),
                "partition", where.partition(),
                "offset", where.offset(),
                "timestamp_ms", where.timestamp());
    }
}
