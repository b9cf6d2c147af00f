/// An expression as the tests make it up, with its text.
indirect enum SlowExpression {
    case null
    case bool(Bool)
    case number(Double)
    case string(String)
    case regex(SlowRegex)
    case name(String)
    case array([SlowExpression])
    case prefix(String, SlowExpression)
    case binary(String, SlowExpression, SlowExpression)
    case choose(SlowExpression, SlowExpression, SlowExpression)
    case member(SlowExpression, String)
    case index(SlowExpression, SlowExpression)
    case call(SlowExpression, String, [SlowExpression])

    /// Higher binds tighter.
    private var precedence: Int {
        switch self {
        case .choose: 0
        case .binary(let name, _, _): Self.precedence(of: name)
        case .prefix: 7
        default: 8
        }
    }

    private static func precedence(of name: String) -> Int {
        switch name {
        case "||": 1
        case "&&": 2
        case "==", "!=", "===", "!==": 3
        case "<", "<=", ">", ">=": 4
        case "+", "-": 5
        default: 6
        }
    }

    /// With no more parentheses than needed.
    var text: String {
        func wrapped(_ part: SlowExpression, _ least: Int) -> String {
            part.precedence >= least ? part.text : "(\(part.text))"
        }
        switch self {
        case .null: return "null"
        case .bool(let value): return "\(value)"
        case .number(let value):
            return value == value.rounded() ? "\(Int(value))" : "\(value)"
        case .string(let text): return "'\(text)'"
        case .regex(let regex): return "/\(regex.pattern)/"
        case .name(let name): return name
        case .array(let items): return "[\(items.map(\.text).joined(separator: ", "))]"
        case .prefix(let sign, let operand):
            // A space keeps two minuses apart.
            return sign + (sign == "-" ? " " : "") + wrapped(operand, 7)
        case .binary(let sign, let left, let right):
            let level = Self.precedence(of: sign)
            return "\(wrapped(left, level)) \(sign) \(wrapped(right, level + 1))"
        case .choose(let condition, let then, let otherwise):
            return "\(wrapped(condition, 1)) ? \(then.text) : \(otherwise.text)"
        case .member(let receiver, let name): return "\(wrapped(receiver, 8)).\(name)"
        case .index(let receiver, let index): return "\(wrapped(receiver, 8))[\(index.text)]"
        case .call(let receiver, let name, let arguments):
            return "\(wrapped(receiver, 8)).\(name)(\(arguments.map(\.text).joined(separator: ",")))"
        }
    }
}

/// A pattern, and the same question asked without a pattern.
struct SlowRegex {
    let pattern: String
    let matches: @Sendable (String) -> Bool

    static let all: [SlowRegex] = [
        SlowRegex(pattern: "^a") { $0.utf8.first == UInt8(ascii: "a") },
        SlowRegex(pattern: "b$") { $0.utf8.last == UInt8(ascii: "b") },
        SlowRegex(pattern: "^[0-9]+$") { !$0.isEmpty && $0.utf8.allSatisfy { $0 &- 0x30 <= 9 } },
        SlowRegex(pattern: ".") { !$0.isEmpty },
        SlowRegex(pattern: "^(a|b)*$") { $0.utf8.allSatisfy { $0 == UInt8(ascii: "a") || $0 == UInt8(ascii: "b") } },
    ]
}
