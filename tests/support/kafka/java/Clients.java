import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Collections;

/**
 * Serves requests from standard input, one a line, until it is closed. The answer to each is a line for every record, then
 * one with "end": null when all went well, else the stack trace.
 */
public final class Clients {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String failure = serve(JSON.readTree(line), out);
            out.println(JSON.writeValueAsString(Collections.singletonMap("end", failure)));
            out.flush();
        }
    }

    /** Any failure of a client is the caller's to judge, so it goes into the answer and the next request is served. */
    private static String serve(JsonNode request, PrintStream out) {
        try {
            switch (request.get("do").asText()) {
                case "produce" -> Produce.run(request, out);
                case "consume" -> Consume.run(request, out);
                case "dump" -> Dump.run(request, out);
                case "offsets" -> Inspect.offsets(request, out);
                case "committed" -> Inspect.committed(request, out);
                case "producers" -> Inspect.producers(request, out);
                case "authorize" -> Authorize.run(request, out);
                default -> throw new IllegalArgumentException("unknown request " + request.get("do"));
            }
            return null;
        } catch (Exception e) {
            StringWriter trace = new StringWriter();
            e.printStackTrace(new PrintWriter(trace, true));
            return trace.toString();
        }
    }
}
