/// One parsed expression. A class, so that a deep tree needs no boxes of its own. The parser limits the depth.
final class Syntax {
    indirect enum Kind {
        case null
        case boolean(Bool)
        case number(Double)
        case string(String)
        case regex(RegexLiteral)
        case identifier(String)
        case array([Syntax])
        case not(Syntax)
        case negate(Syntax)
        /// `&&`, `||` and `+` of two or more operands, folded from the left.
        case chain(ChainOperator, [Syntax])
        case binary(BinaryOperator, Syntax, Syntax)
        case conditional(Syntax, then: Syntax, otherwise: Syntax)
        /// `receiver.name`.
        case member(Syntax, name: String, nameOffset: Int)
        /// `receiver[index]`.
        case element(Syntax, index: Syntax)
        case call(Syntax, arguments: [Syntax])

        var parts: [Syntax] {
            switch self {
            case .null, .boolean, .number, .string, .regex, .identifier: []
            case .array(let items), .chain(_, let items): items
            case .not(let operand), .negate(let operand), .member(let operand, _, _): [operand]
            case .binary(_, let left, let right), .element(let left, let right): [left, right]
            case .conditional(let condition, let then, let otherwise): [condition, then, otherwise]
            case .call(let callee, let arguments): [callee] + arguments
            }
        }
    }

    let kind: Kind
    /// The range of bytes in the expression's text.
    let span: Range<Int>
    /// The number of levels of this tree, which is the depth of a recursion over it.
    let depth: Int

    init(_ kind: Kind, _ span: Range<Int>) {
        self.kind = kind
        self.span = span
        depth = 1 + kind.parts.reduce(0) { max($0, $1.depth) }
    }
}

struct RegexLiteral {
    let pattern: String
    let ignoresCase: Bool
}

enum ChainOperator {
    case and
    case or
    case add
}

enum BinaryOperator: String {
    case equal = "=="
    case unequal = "!="
    case less = "<"
    case lessOrEqual = "<="
    case greater = ">"
    case greaterOrEqual = ">="
    case subtract = "-"
    case multiply = "*"
    case divide = "/"
    case remainder = "%"
}
