import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import kafka.tools.DumpLogSegments;
import org.apache.kafka.common.utils.Exit;

/** Calls the dump tool once a file, as if alone in its JVM, and prints what it wrote, a JSON line each. */
final class Dump {
    private Dump() {}

    static void run(JsonNode request, PrintStream out) throws JsonProcessingException {
        Exit.setExitProcedure((status, message) -> {
            throw new IllegalArgumentException("exit status " + status);
        });
        for (JsonNode file : request.get("files")) {
            List<String> arguments = new ArrayList<>(List.of("--files", file.asText()));
            request.get("flags").forEach(flag -> arguments.add(flag.asText()));
            out.println(Clients.JSON.writeValueAsString(dump(arguments.toArray(new String[0]))));
        }
    }

    /** Scala prints to its own Console, whose stream is set for a thread; the tool's complaints go to System.err. */
    private static Map<String, String> dump(String[] arguments) {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream complaints = new ByteArrayOutputStream();
        String failure = null;
        PrintStream original = System.err;
        System.setErr(new PrintStream(complaints, true, StandardCharsets.UTF_8));
        try (PrintStream console = new PrintStream(printed, false, StandardCharsets.UTF_8)) {
            scala.Console.withOut(console, () -> {
                DumpLogSegments.main(arguments);
                return null;
            });
        } catch (Exception e) {
            failure = e.toString();
        } finally {
            System.setErr(original);
        }
        Map<String, String> row = new LinkedHashMap<>();
        row.put("stdout", printed.toString(StandardCharsets.UTF_8));
        row.put("stderr", complaints.toString(StandardCharsets.UTF_8));
        row.put("failure", failure);
        return row;
    }
}
