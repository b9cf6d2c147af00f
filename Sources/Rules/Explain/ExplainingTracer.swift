internal import Tree

/// Notes every rule that is asked and every value on the way.
struct ExplainingTracer: WalkTracer {
    struct Run {
        let rule: RuleID
        let place: Path
        var values: [Int32: String] = [:]
        var result: Result<Bool, EvaluationError> = .success(false)
    }

    private(set) var runs: [Run] = []

    mutating func begin(_ rule: RuleID, _ frames: ContiguousArray<Frame>) {
        runs.append(Run(rule: rule, place: Path(frames.dropFirst().map { Key($0.key) })))
    }

    mutating func record(_ ref: OpRef, _ value: @autoclosure () -> Value) {
        guard !runs.isEmpty else { return }
        runs[runs.count - 1].values[ref.index] = Self.text(of: value())
    }

    mutating func end(_ result: Result<Bool, EvaluationError>) {
        guard !runs.isEmpty else { return }
        runs[runs.count - 1].result = result
    }

    private static func text(of value: Value) -> String {
        switch value {
        case .null: return "null"
        case .boolean(let flag): return String(flag)
        case .number(let number): return NumberText.string(number)
        case .string(let text):
            let shown = text.count > 80 ? text.prefix(80) + "…" : text[...]
            return String(decoding: JSONWriter.encode(.string(String(shown)), form: .plain), as: UTF8.self)
        case .object(let node):
            let count = node.childCount
            return "(an object with \(count) \(count == 1 ? "child" : "children"))"
        }
    }
}

extension EvaluationError.Reason {
    /// A clause that says what was wrong.
    var text: String {
        switch self {
        case .notNumbers: "an operand is not a number"
        case .notComparable: "the operands are not two numbers or two strings"
        case .notJoinable: "an operand of + is not a number or a string"
        case .notAString: "a string is needed"
        case .aboveTheRoot: "the root has no parent"
        case .outOfSteps: "the rule takes too many steps"
        case .notKnown: "the rule depends on what is not known"
        }
    }
}
