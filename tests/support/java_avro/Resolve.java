import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.DecoderFactory;

/** What Apache's Avro reads: for each line {"writer": schema, "reader": schema, "data": hex} a line with the value. */
final class Resolve {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Resolve() {}

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            ObjectNode found = JSON.createObjectNode();
            try {
                Schema writer = parse(asked.get("writer"));
                byte[] data = HexFormat.of().parseHex(asked.get("data").asText());
                var reader = new GenericDatumReader<Object>(writer, parse(asked.get("reader")));
                found.set("value", plain(reader.read(null, DecoderFactory.get().binaryDecoder(data, null))));
            } catch (RuntimeException | java.io.IOException error) {
                found.put("error", error.getClass().getSimpleName() + " " + error.getMessage());
            }
            System.out.println(JSON.writeValueAsString(found));
        }
    }

    /** As Spark's from_avro parses: defaults are not checked before they are needed. */
    private static Schema parse(JsonNode schema) {
        return new Schema.Parser().setValidateDefaults(false).parse(schema.toString());
    }

    /** Bytes as {"bytes": hex}, maps as {"map": ...}; text is text, so that an enum is one. */
    private static JsonNode plain(Object value) {
        ObjectNode object = JSON.createObjectNode();
        if (value instanceof IndexedRecord record) {
            for (Schema.Field field : record.getSchema().getFields()) {
                object.set(field.name(), plain(record.get(field.pos())));
            }
            return object;
        }
        if (value instanceof ByteBuffer buffer) {
            byte[] bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
            return object.put("bytes", HexFormat.of().formatHex(bytes));
        }
        if (value instanceof GenericFixed fixed) {
            return object.put("bytes", HexFormat.of().formatHex(fixed.bytes()));
        }
        if (value instanceof Map<?, ?> map) {
            ObjectNode entries = object.putObject("map");
            map.forEach((key, each) -> entries.set(key.toString(), plain(each)));
            return object;
        }
        if (value instanceof Collection<?> items) {
            var array = JSON.createArrayNode();
            items.forEach(each -> array.add(plain(each)));
            return array;
        }
        if (value instanceof Float number) {
            return JSON.valueToTree(number.doubleValue());
        }
        if (value instanceof Number || value instanceof Boolean || value == null) {
            return JSON.valueToTree(value);
        }
        return JSON.valueToTree(value.toString());
    }
}
