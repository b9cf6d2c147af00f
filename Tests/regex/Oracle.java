import dk.brics.automaton.Automaton;
import dk.brics.automaton.BasicAutomata;
import dk.brics.automaton.RegExp;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Answers questions about regular expressions with the library dk.brics.automaton.
 *
 * A line of the input is a question: `^` or `-` (whether the pattern is anchored at its start), `$` or `-` (at its end), the
 * pattern without its anchors, and any number of texts, separated by spaces. Patterns and texts are UTF-16 units of four
 * hexadecimal digits each; an empty one is `.`. The answer is a line with `1` or `0` for each text, or `!` and the message of
 * the error.
 */
final class Oracle {
    public static void main(String[] arguments) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println(answer(line.split(" ")));
        }
        output.flush();
    }

    private static String answer(String[] question) {
        Automaton automaton;
        try {
            // Not minimized: some automata would take gigabytes.
            automaton = new RegExp(text(question[2]), RegExp.NONE).toAutomaton(false);
        } catch (IllegalArgumentException error) {
            return "!" + error.getMessage();
        }
        if (!question[0].equals("^")) {
            automaton = BasicAutomata.makeAnyString().concatenate(automaton);
        }
        if (!question[1].equals("$")) {
            automaton = automaton.concatenate(BasicAutomata.makeAnyString());
        }
        StringBuilder answers = new StringBuilder();
        for (int index = 3; index < question.length; index++) {
            answers.append(automaton.run(text(question[index])) ? '1' : '0');
        }
        return answers.toString();
    }

    private static String text(String digits) {
        StringBuilder units = new StringBuilder();
        for (int index = 0; index + 4 <= digits.length(); index += 4) {
            units.append((char) Integer.parseInt(digits.substring(index, index + 4), 16));
        }
        return units.toString();
    }
}
