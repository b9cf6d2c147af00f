import Rules
import Tree

extension FuzzTarget {
    /// Rule expressions, and the evaluation of valid ones on random data within a budget of steps.
    static let expression = FuzzTarget(
        name: "expression",
        corpus: [
            "true", "auth != null && auth.uid === $k", "data.val() == 1 || !newData.exists()",
            "now % 2 == 0 ? -1.5e3 < 0x1F : false",
            "root.child('p/' + auth.uid).hasChildren(['a', 'b' + 1])",
            "newData.parent().child($k).val() === data.parent().val()",
            "data.val().replace('a', 'b').toUpperCase().length >= 3",
            "newData.val().matches(/^[a-z\\d_]{1,3}(x|y)*\\s+$/i)",
            "auth.token['a.b'].contains('é') && auth['uid'].beginsWith('')",
            "query.orderByChild == 'a/b' && query.limitToFirst <= 10",
            "data.child('a').getPriority() != null && data.isNumber()", "(data.val() + 1) * 2 - 3 / 4 == 'x'",
            "\"\\u0061\\x41\\n\" != ''",
            "data.val().replace('', 'aa').replace('a', data.val()).endsWith('b')", "/* c */ $k.length > 2 // d",
        ],
        tokens: [
            "(", ")", "[", "]", ",", ".", "'", "\"", "/", "\\", "?", ":", "!", "-", "+", "*", "%", "==", "!=", "===",
            "&&", "||", "<", ">=",
            "data", "newData", "root", "auth", "now", "query", "$k", "null", "true", ".val()", ".child(", ".parent()",
            ".exists()",
            ".hasChildren([", ".length", ".contains(", ".replace('', ", ".replace('a', ", ".matches(/", "/i)",
            ".toLowerCase()", ".uid",
            "['", "']", "1e308", "0x", "5e-324", "'a'", "'é😀'", "''", "{1000}", "(a?){20}", "[^a]", "^", "$", "\\d",
            "\u{A0}", "\u{2028}",
            "data.val()+", "'\(String(repeating: "x", count: 250))'",
        ]
    ) { input, summary in
        for kind in [".read", ".write", ".validate"] {
            guard let rules = try? RuleSet(json: document(input, of: kind)) else {
                summary.note(kind.utf8.count)
                continue
            }
            if let wrong = ask(rules, document(input, of: kind), &summary) { return wrong }
        }
        return nil
    }.measuring { _ = try? RuleSet(json: document($0, of: ".read")) }

    /// The step limits for one rule, low enough for a short run.
    private static let manySteps = RuleLimits(maxStepsPerRule: 20_000, maxStepsPerOperation: 100_000)
    private static let fewSteps = RuleLimits(maxStepsPerRule: 20, maxStepsPerOperation: 40)
    /// The maximum CPU time of an evaluation in seconds, far above the cost of its steps.
    private static let mostSeconds = 2.0

    /// Returns a document with the expression as its only rule. The other rule of a write always allows it.
    private static func document(_ expression: [UInt8], of kind: String) -> [UInt8] {
        let text = JSONWriter.encode(.string(String(decoding: expression, as: UTF8.self)), form: .plain)
        let others = kind == ".validate" ? #",".write":true"# : ""
        return Array(#"{"rules":{"$j":{"$k":{"\#(kind)":"#.utf8) + text + Array("\(others)}}}}".utf8)
    }

    private static func ask(_ rules: RuleSet, _ document: [UInt8], _ summary: inout Summary) -> String? {
        guard let many = try? RuleSet(json: document, limits: manySteps),
            let few = try? RuleSet(json: document, limits: fewSteps)
        else { return "limits make a document wrong" }
        for sample in RuleSamples.of(document).prefix(2) {
            let start = Stopwatch.worked()
            let decisions = sample.decisions(many)
            let seconds = Stopwatch.worked() - start
            if seconds > mostSeconds { return "\(decisions.count) answers took \(seconds) s" }
            guard sample.decisions(many) == decisions else { return "the same request is decided differently" }
            guard sample.explains(decisions, of: many) else { return "the explanation comes to another decision" }
            summary.note(decisions.count { $0.isAllowed })
            // A rule that exceeds its steps counts as false.
            if zip(decisions, sample.decisions(few)).contains(where: { !$0.isAllowed && $1.isAllowed }) {
                return "fewer steps allow more"
            }
            if let wrong = sample.steadiness(rules) { return wrong }
        }
        return nil
    }
}
