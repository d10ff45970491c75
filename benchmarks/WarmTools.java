import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;

/**
 * Runs tools one after the other in a JVM that stays warm. A line of the input is a class and its arguments, with tabs
 * between them; a line "END" follows what the tool printed. The JVM ends with the first tool that fails.
 */
public final class WarmTools {
    public static void main(String[] none) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            Object arguments = Arrays.copyOfRange(words, 1, words.length);
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, arguments);
            System.out.println("END");
        }
    }
}
