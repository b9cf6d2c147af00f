internal import Tree

/// A value of a running expression. Numbers are doubles, as in Firebase's rules language.
enum Value {
    case null
    case boolean(Bool)
    case number(Double)
    case string(String)
    /// A node with children, or a claim with members. Equal to no value, not even to itself.
    case object(Node)

    @inline(__always)
    init(_ node: Node) {
        switch node {
        case .null: self = .null
        case .bool(let value): self = .boolean(value)
        case .int(let value): self = .number(Double(value))
        case .double(let value): self = .number(value)
        case .string(let text): self = .string(text)
        case .branch: self = .object(node)
        case .prioritized(let leaf): self = Value(leaf.value)
        // Server values are resolved before any rule runs. An unresolved one would equal no value.
        case .serverValue: self = .object(.null)
        }
    }

    /// Whether both have the same type and the same value.
    @inline(__always)
    static func isEqual(_ left: Value, _ right: Value) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.boolean(let first), .boolean(let second)): first == second
        case (.number(let first), .number(let second)): first == second
        case (.string(let first), .string(let second)): first.hasSameBytes(as: second)
        default: false
        }
    }
}

/// The reason why an expression has no value. Its rule then counts as false.
struct EvaluationError: Error, Equatable {
    enum Reason: Equatable {
        case notNumbers
        case notComparable
        case notJoinable
        case notAString
        case aboveTheRoot
        case outOfSteps
        /// Some of the input is not known in this evaluation: see `Knowledge`.
        case notKnown
    }

    let reason: Reason
    /// The operation that failed.
    let ref: OpRef
}

/// Converts numbers in concatenations to text, as JavaScript does.
enum NumberText {
    static func string(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Infinity" : "Infinity" }
        if value == value.rounded(.towardZero), value.magnitude < 9_007_199_254_740_992 { return String(Int64(value)) }
        let (digits, point) = decimal(value.magnitude)
        return (value < 0 ? "-" : "") + layout(digits, point)
    }

    /// Returns the shortest digits that identify the value, and the position of the decimal point among them.
    private static func decimal(_ value: Double) -> (digits: [UInt8], point: Int) {
        var digits: [UInt8] = []
        var point: Int?
        var exponent = 0
        let text = Array(value.description.utf8)
        let end = text.firstIndex(of: UInt8(ascii: "e")) ?? text.count
        for byte in text[..<end] {
            if byte == UInt8(ascii: ".") { point = digits.count } else { digits.append(byte) }
        }
        if end < text.count { exponent = Int(String(decoding: text[(end + 1)...], as: UTF8.self)) ?? 0 }
        var position = (point ?? digits.count) + exponent
        while digits.count > 1, digits.first == UInt8(ascii: "0") {
            digits.removeFirst()
            position -= 1
        }
        while digits.count > 1, digits.last == UInt8(ascii: "0") { digits.removeLast() }
        return (digits, position)
    }

    private static func layout(_ digits: [UInt8], _ point: Int) -> String {
        func text(_ digits: some Sequence<UInt8>) -> String { String(decoding: Array(digits), as: UTF8.self) }
        if point > 0, point <= 21 {
            if digits.count <= point { return text(digits) + String(repeating: "0", count: point - digits.count) }
            return text(digits[..<point]) + "." + text(digits[point...])
        }
        if point <= 0, point > -6 { return "0." + String(repeating: "0", count: -point) + text(digits) }
        let exponent = point - 1
        let fraction = digits.count > 1 ? "." + text(digits[1...]) : ""
        return text(digits[..<1]) + fraction + (exponent < 0 ? "e-" : "e+") + String(exponent.magnitude)
    }
}
