/// Parses the rules language's regular expressions: those of the Java library dk.brics.automaton 1.11 without its optional
/// operators, with the anchors, the predefined sets and the flag `i` of the rules language (docs/reference/rules.md, "Regular
/// expressions"). The parser works on UTF-16 code units. Positions in errors count from 0 in the pattern without its anchors.
struct RegexParser {
    private let units: [UInt16]
    private let ignoresCase: Bool
    private var index = 0
    private var nesting = 0
    /// The number of characters, classes and members of classes so far, and of the pairs of letters examined for the flag `i`.
    private var work = 0
    /// Warnings about valid but probably unintended parts: the first case of each kind.
    private var warnings: [String] = []
    private var warned: Set<Warning> = []

    struct Invalid: Error, Equatable {
        let message: String
    }

    struct Result {
        let syntax: RegexSyntax
        /// Whether `^` is the first and `$` the last character of the pattern. They apply to the whole pattern, including its
        /// alternatives.
        let isAnchoredAtStart: Bool
        let isAnchoredAtEnd: Bool
        /// At most one of each kind, in the order of the pattern.
        let warnings: [String]
        /// The approximate number of instructions of the pattern before it is trimmed, or the work of reading it if that is
        /// more.
        let size: Int
    }

    /// The maximum nesting of groups.
    private static let maxNesting = 100
    /// The maximum number of instructions of a pattern with its repetitions written out.
    static let maxSize = 200_000

    /// - Parameter work: set to the work of reading the pattern, in characters, also after an error.
    static func parse(_ literal: RegexLiteral, work: inout Int) throws(Invalid) -> Result {
        var units = ArraySlice(literal.pattern.utf16)
        let isAnchoredAtStart = units.first == unit("^")
        if isAnchoredAtStart { units = units.dropFirst() }
        let isAnchoredAtEnd = units.last == unit("$") && !isEscaped(units.endIndex - 1, in: units)
        if isAnchoredAtEnd { units = units.dropLast() }
        var parser = RegexParser(units: Array(units), ignoresCase: literal.ignoresCase)
        defer { work = parser.work }
        let syntax = units.isEmpty ? RegexSyntax.empty : try parser.union()
        guard parser.index == parser.units.count else {
            throw illegal("end-of-string expected at position \(parser.index)")
        }
        let size = syntax.size(limit: maxSize)
        guard size <= maxSize else { throw tooLarge }
        return Result(
            syntax: syntax, isAnchoredAtStart: isAnchoredAtStart, isAnchoredAtEnd: isAnchoredAtEnd,
            warnings: parser.warnings, size: max(size, parser.work))
    }

    private init(units: [UInt16], ignoresCase: Bool) {
        self.units = units
        self.ignoresCase = ignoresCase
    }

    /// Returns an error with Firebase's wording.
    private static func illegal(_ message: String) -> Invalid {
        Invalid(message: "Illegal regular expression, \(message)")
    }

    static let tooLarge = Invalid(
        message: "The regular expression is too large: its repetitions take more than \(maxSize) instructions.")

    private static func unit(_ scalar: Unicode.Scalar) -> UInt16 { UInt16(truncatingIfNeeded: scalar.value) }

    /// Whether an odd number of backslashes precedes the index.
    private static func isEscaped(_ index: Int, in units: ArraySlice<UInt16>) -> Bool {
        units[..<index].reversed().prefix { $0 == unit("\\") }.count % 2 == 1
    }

    // MARK: Reading

    private func peeks(_ scalars: Unicode.Scalar...) -> Bool {
        index < units.count && scalars.contains { Self.unit($0) == units[index] }
    }

    private mutating func match(_ scalar: Unicode.Scalar) -> Bool {
        guard peeks(scalar) else { return false }
        index += 1
        return true
    }

    private mutating func next() throws(Invalid) -> UInt16 {
        guard index < units.count else { throw Self.illegal("unexpected end-of-string") }
        index += 1
        return units[index - 1]
    }

    private func text(_ range: Range<Int>) -> String { String(decoding: units[range], as: UTF16.self) }

    // MARK: Grammar

    private mutating func union() throws(Invalid) -> RegexSyntax {
        var branches = [try concatenation()]
        while match("|") { branches.append(try concatenation()) }
        return .either(branches)
    }

    /// Parses a concatenation. Its first item is read in any case: an operator there is an ordinary character.
    private mutating func concatenation() throws(Invalid) -> RegexSyntax {
        if peeks("*", "+", "?", "{", "|", ")") {
            warn(.operation) {
                let operation = $0.text($0.index..<($0.index + 1))
                return (
                    "'\($0.text(max(0, $0.index - 1)..<($0.index + 1)))'", "looks for the character '\(operation)'"
                )
            }
        }
        var items = [try repetition()]
        while index < units.count, !peeks(")", "|") { items.append(try repetition()) }
        return .joined(items)
    }

    private mutating func repetition() throws(Invalid) -> RegexSyntax {
        var item = try atom()
        let begin = index
        while peeks("?", "*", "+", "{") {
            if index > begin, peeks("?", "+") {
                warn(.quantifier) {
                    (
                        "'\($0.text(($0.index - 1)..<($0.index + 1)))'",
                        "repeats a repetition: there are no lazy or possessive quantifiers"
                    )
                }
            }
            if match("?") {
                item = item.repeating(0, 1)
            } else if match("*") {
                item = item.repeating(0, nil)
            } else if match("+") {
                item = item.repeating(1, nil)
            } else {
                let (low, high) = try bounds()
                item = item.repeating(low, high)
                // A repetition without copies does not grow.
                guard max(low, high ?? 0) <= 1 || item.size(limit: Self.maxSize) <= Self.maxSize else {
                    throw Self.tooLarge
                }
            }
        }
        return item
    }

    /// Parses `{n}`, `{n,}` or `{n,m}`.
    private mutating func bounds() throws(Invalid) -> (low: Int, high: Int?) {
        let begin = index
        index += 1
        guard let low = try number() else { throw Self.illegal("integer expected at position \(index)") }
        var high: Int? = low
        if match(",") { high = try number() }
        guard match("}") else { throw Self.illegal("expected '}' at position \(index)") }
        if let high, high < low { warn(.count) { ("'\($0.text(begin..<$0.index))'", "matches nothing") } }
        return (low, high)
    }

    private mutating func number() throws(Invalid) -> Int? {
        let begin = index
        while index < units.count, units[index] &- 0x30 <= 9 { index += 1 }
        guard index > begin else { return nil }
        guard let value = Int32(text(begin..<index)) else {
            throw Self.illegal("For input string: \"\(text(begin..<index))\"")
        }
        return Int(value)
    }

    private mutating func atom() throws(Invalid) -> RegexSyntax {
        try charge(1)
        if match("[") { return try characterClass() }
        if match(".") { return .units(.all) }
        if match("\"") { return try quotation() }
        if match("(") { return try group() }
        if peeks("^") {
            throw Invalid(message: "^ is only allowed as the first character of a regular expression")
        }
        if peeks("$") { throw Invalid(message: "$ is only allowed as the last character of a regular expression") }
        switch try character() {
        case .unit(let unit): return .units(try cased(UnitSet(unit)))
        // Predefined sets contain both cases of their letters.
        case .set(let set): return .set(set)
        }
    }

    private mutating func group() throws(Invalid) -> RegexSyntax {
        if match(")") { return .empty }
        nesting += 1
        guard nesting <= Self.maxNesting else { throw Invalid(message: "regular expression nested too deeply") }
        let inner = try union()
        guard match(")") else { throw Self.illegal("expected ')' at position \(index)") }
        nesting -= 1
        return inner
    }

    /// Parses a text between double quotes, without escapes.
    private mutating func quotation() throws(Invalid) -> RegexSyntax {
        warn(.quotation) { _ in ("'\"'", "begins and ends a quoted text; '\\\"' looks for the character") }
        let begin = index
        while index < units.count, !peeks("\"") { index += 1 }
        guard match("\"") else { throw Self.illegal("expected '\"' at position \(index)") }
        try charge(index - begin)
        var items: [RegexSyntax] = []
        for unit in units[begin..<(index - 1)] { items.append(.units(try cased(UnitSet(unit)))) }
        return .joined(items)
    }

    private enum Character {
        case unit(UInt16)
        case set(UnitSet)
    }

    /// Parses a character or an escape, which is a predefined set or the character itself.
    private mutating func character() throws(Invalid) -> Character {
        guard match("\\") else { return .unit(try next()) }
        let unit = try next()
        switch Unicode.Scalar(unit) {
        case "d": return .set(.digits)
        case "D": return .set(UnitSet.digits.complement)
        case "w": return .set(.word)
        case "W": return .set(UnitSet.word.complement)
        case "s": return .set(.space)
        case "S": return .set(UnitSet.space.complement)
        case let scalar?:
            switch scalar {
            case "0"..."9", "A"..."Z", "a"..."z":
                warn(.escape) { _ in ("'\\\(scalar)'", "looks for the character '\(scalar)'") }
            default: break
            }
            return .unit(unit)
        case nil: return .unit(unit)
        }
    }

    // MARK: Classes

    private mutating func characterClass() throws(Invalid) -> RegexSyntax {
        let isNegated = match("^")
        var ranges: [ClosedRange<UInt16>] = []
        repeat {
            let member = try classMember()
            try charge(max(1, member.count))
            ranges += member
        } while index < units.count && !peeks("]")
        guard match("]") else { throw Self.illegal("expected ']' at position \(index)") }
        let set = try cased(UnitSet(ranges))
        return .set(isNegated ? set.complement : set)
    }

    /// Parses a character, a range or a predefined set. After a set, and before one, a hyphen is an ordinary character.
    private mutating func classMember() throws(Invalid) -> [ClosedRange<UInt16>] {
        let begin = index
        switch try character() {
        case .set(let set): return set.ranges
        case .unit(let low):
            guard match("-") else { return [low...low] }
            let hyphen = Self.unit("-")
            if peeks("]") { return [low...low, hyphen...hyphen] }
            switch try character() {
            case .set(let set): return [low...low, hyphen...hyphen] + set.ranges
            case .unit(let high):
                if low <= high { return [low...high] }
                warn(.range) { ("'\($0.text(begin..<$0.index))'", "is a range without characters") }
                return []
            }
        }
    }

    private mutating func cased(_ set: UnitSet) throws(Invalid) -> UnitSet {
        guard ignoresCase else { return set }
        var pairs = 0
        let cased = set.ignoringCase(&pairs)
        try charge(pairs / 8)
        return cased
    }

    private mutating func charge(_ work: Int) throws(Invalid) {
        self.work += work
        guard self.work <= Self.maxSize else { throw Self.tooLarge }
    }

    // MARK: Warnings

    private enum Warning { case operation, quantifier, count, quotation, escape, range }

    /// Adds the first warning of a kind, and creates its text only then, because a pattern may cause a million warnings.
    private mutating func warn(_ kind: Warning, _ text: (Self) -> (part: String, message: String)) {
        guard warned.insert(kind).inserted else { return }
        let (part, message) = text(self)
        warnings.append("\(part) in a regular expression \(message)")
    }
}
