import Rules
import Tree

extension FuzzTarget {
    /// Rules documents, and the decisions of valid ones.
    static let rules = FuzzTarget(
        name: "rules",
        corpus: [
            #"{"rules":{".read":true,".write":false}}"#,
            #"{"rules":{".read":"auth != null","p":{".write":"data.val() == 1"}}}"#,
            #"{"rules":{"p":{"$k":{".read":"$k == auth.uid",".validate":"newData.isString()","$j":{".write":true}}}}}"#,
            #"{"rules":{"items":{".indexOn":["a","b/c",".value"],".read":"query.limitToFirst <= 10"}}}"#,
            "{ // why\n\"rules\": { /* a */ \"p\" : { \".read\" : \"root.child('q').exists()\" , }, }, }",
            "\u{FEFF}{\"rules\":{\"p\":{\".write\":\"newData.hasChildren(['a', 'b'])\n&& true\"}}}",
            #"{"rules":{"a":{".validate":"newData.val().matches(\/^[a-z]{2,5}$\/i) || newData.val().length > 3"}}}"#,
            #"{"rules":{"\u0061é😀":{".read":"\u0074rue // no\n"},"$x":{"b":{".indexOn":".value"}}}}"#,
        ],
        tokens: [
            "{", "}", "[", "]", ":", ",", "\"", "\\", "\n", "\t", " ", "//", "/*", "*/", "\u{FEFF}", "\"rules\":",
            "\".read\":",
            "\".write\":", "\".validate\":", "\".indexOn\":", "\"$k\":{", "\"p\":{", "true", "false", "\"true\"",
            "\"auth != null\"",
            "\"$k == 'a'\"", "\"data.val() == newData.val()\"", "\"now > 5\"", "\\u0022", "\\n", "\\ud83d\\ude00",
            "{\"a\":",
            "\"data.parent().exists()\"", "\"root.child('p/a').val() != null\"", ",}", ",]", "\u{0}", "\u{7F}",
        ]
    ) { input, summary in
        let rules: RuleSet
        do throws(RulesError) {
            rules = try RuleSet(json: input, keepsWarnings: true)
        } catch {
            return refusal(error, of: input, &summary)
        }
        summary.noteSize(rules.warnings.count)
        if let wrong = positions(of: rules.warnings, in: input) { return wrong }
        let strict = rules.strictSource
        guard RawJSON(strict).isJSON else { return "the strict source is not JSON" }
        guard let again = try? RuleSet(json: strict) else { return "the strict source is refused" }
        guard again.strictSource == strict else { return "the strict source is not stable" }
        for path in RuleSamples.paths where rules.indexes(at: path) != again.indexes(at: path) {
            return "the strict source declares other indexes"
        }
        for sample in RuleSamples.of(input) {
            let decisions = sample.decisions(rules)
            summary.note(decisions.count { $0.isAllowed })
            guard sample.decisions(rules) == decisions else { return "the same request is decided differently" }
            guard sample.explains(decisions, of: rules) else { return "the explanation comes to another decision" }
            // The rules have the same numbers in both documents, because they are counted in the order of the text.
            guard sample.decisions(again) == decisions else { return "the strict source decides differently" }
            if let wrong = sample.steadiness(rules) { return wrong }
        }
        return nil
    }.measuring { _ = try? RuleSet(json: $0) }

    /// Checks that every problem has a message and a position in the text, and that problems are in the order of their
    /// positions.
    private static func refusal(_ error: RulesError, of input: [UInt8], _ summary: inout Summary) -> String? {
        if error.problems.isEmpty { return "a refusal without a reason" }
        for problem in error.problems.prefix(3) { summary.noteWords(of: problem.message) }
        return positions(of: error.problems, in: input)
    }

    private static func positions(of problems: [RulesError.Problem], in input: [UInt8]) -> String? {
        let lines = input.split(separator: 0x0A, omittingEmptySubsequences: false)
        var last = (line: 0, column: 0)
        for problem in problems {
            if problem.message.isEmpty { return "a problem without a text" }
            guard (1...lines.count).contains(problem.line), problem.column >= 1,
                problem.column <= lines[problem.line - 1].count + 1
            else { return "a problem outside the text: \(problem)" }
            if (problem.line, problem.column) < last { return "problems that are not sorted" }
            last = (problem.line, problem.column)
        }
        return nil
    }
}
