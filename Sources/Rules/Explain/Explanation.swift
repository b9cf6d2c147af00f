public import Tree

/// The explanation of a decision: every rule that was evaluated, in order, with the value of each of its parts. For authors of
/// rules and their tools. It shows data, so ordinary clients must not see it.
public struct Explanation: Sendable, CustomStringConvertible {
    /// One rule that was evaluated.
    public struct Step: Sendable {
        public let rule: RuleSet.RuleInfo
        /// The path of the node for which the rule was evaluated.
        public let path: Path
        /// The rule's result, or nil if it had no value, which counts as false.
        public let result: Bool?
        /// The reason why the rule had no value.
        public let error: String?
        public let parts: [Part]
    }

    /// A subexpression.
    public struct Part: Sendable, Equatable {
        public let text: String
        /// The nesting level within the expression, from 0.
        public let level: Int
        /// The value as text, `not evaluated`, or the error.
        public let value: String
    }

    public let decision: Decision
    public let steps: [Step]
    /// The rule that decided: the one that granted a read, or the one that denied. Nil if no rule was evaluated, or if several
    /// rules had to agree on an allowed write.
    public let deciding: RuleSet.RuleInfo?

    public var description: String {
        var text = ""
        for step in steps {
            let rule = step.rule
            let result = step.result.map(String.init) ?? "error: \(step.error ?? ""), which counts as false"
            text += "\(step.path)\n"
            text += "    \(rule.kind.rawValue) of \(rule.pattern) (\(rule.position)): \(Self.singleLine(rule.source))\n"
            text += "    => \(result)\n"
            let width = min(60, step.parts.map { $0.level * 2 + $0.text.count }.max() ?? 0)
            for part in step.parts {
                let label = String(repeating: "  ", count: part.level) + part.text
                let padding = String(repeating: " ", count: max(0, width - label.count))
                text += "        \(label)\(padding)  \(part.value)\n"
            }
        }
        return text + summary + "\n"
    }

    private var summary: String {
        switch decision {
        case .allowed:
            return "Allowed" + (deciding.map { ", by \(Self.name($0))." } ?? ".")
        case .denied(let denial):
            switch denial.reason {
            case .noReadAllowed: return "Denied: no .read rule allowed the operation at \(denial.path)."
            case .noWriteAllowed: return "Denied: no .write rule allowed the operation at \(denial.path)."
            case .invalid, .failed:
                return "Denied: \(denial.path) is not valid" + (deciding.map { ", by \(Self.name($0))." } ?? ".")
            }
        }
    }

    private static func name(_ rule: RuleSet.RuleInfo) -> String {
        "\(rule.kind.rawValue) of \(rule.pattern) (\(rule.position))"
    }

    /// Returns the text on one line, because rules often have line breaks.
    static func singleLine(_ text: String) -> String {
        text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }
}

/// Records every rule that is evaluated and every value.
struct ExplainingTracer: WalkTracer {
    struct Run {
        let rule: RuleID
        let path: Path
        var values: [Int32: String] = [:]
        var result: Result<Bool, EvaluationError> = .success(false)
    }

    private(set) var runs: [Run] = []

    mutating func begin(_ rule: RuleID, _ frames: ContiguousArray<Frame>) {
        runs.append(Run(rule: rule, path: Path(frames.dropFirst().map { Key($0.key) })))
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
    /// The reason as a clause.
    var text: String {
        switch self {
        case .notNumbers: "an operand is not a number"
        case .notComparable: "the operands are not two numbers or two strings"
        case .notJoinable: "an operand of + is not a number or a string"
        case .notAString: "a string is needed"
        case .aboveTheRoot: "the root has no parent"
        case .outOfSteps: "the rule takes too many steps"
        case .notKnown: "the rule depends on an unknown value"
        }
    }
}
