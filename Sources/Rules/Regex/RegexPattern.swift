/// Translates the rules language's regular expressions into RE2's syntax (reference: security-rules 6). Every character
/// is written out by its code, so that nothing outside the subset can reach the engine.
struct RegexPattern {
    private let scalars: [Unicode.Scalar]
    private var index = 0
    private var output = ""
    private var nesting = 0
    /// What the author may not have meant.
    private(set) var warnings: [String] = []

    struct Invalid: Error {
        let message: String
    }

    /// JavaScript's white space, and everything else.
    private static let space =
        #"\x{9}-\x{D}\x{20}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}"#
    private static let notSpace =
        #"\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}"#
        + #"\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{FEFE}\x{FF00}-\x{10FFFF}"#

    static func translate(_ pattern: String) throws(Invalid) -> (pattern: String, warnings: [String]) {
        var translation = RegexPattern(scalars: Array(pattern.unicodeScalars))
        try translation.alternatives()
        guard translation.index == translation.scalars.count else {
            throw Invalid(message: "unmatched ) in regular expression")
        }
        return (translation.output, translation.warnings)
    }

    private init(scalars: [Unicode.Scalar]) { self.scalars = scalars }

    private var peek: Unicode.Scalar? { index < scalars.count ? scalars[index] : nil }

    /// Alternatives up to the end or a closing parenthesis.
    private mutating func alternatives() throws(Invalid) {
        try alternative()
        while peek == "|" {
            index += 1
            output += "|"
            try alternative()
        }
    }

    private mutating func alternative() throws(Invalid) {
        let begin = index
        while let scalar = peek, scalar != "|", scalar != ")" {
            if scalar == "^" || scalar == "$" {
                try anchor(scalar)
            } else {
                let isGroupStart = index == begin && nesting > 0 && scalars[index - 1] == "("
                try atom(mayBeLiteral: isGroupStart)
                try quantifier()
            }
        }
        if index == begin { throw Invalid(message: "empty alternative in regular expression") }
    }

    private mutating func anchor(_ scalar: Unicode.Scalar) throws(Invalid) {
        guard scalar == "^" ? index == 0 : index == scalars.count - 1 else {
            throw Invalid(
                message: scalar == "^"
                    ? "^ is only allowed as the first character of a regular expression"
                    : "$ is only allowed as the last character of a regular expression")
        }
        output += scalar == "^" ? "^" : "$"
        index += 1
    }

    private mutating func atom(mayBeLiteral: Bool) throws(Invalid) {
        guard let scalar = peek else { return }
        index += 1
        switch scalar {
        case "(":
            nesting += 1
            guard nesting <= 100 else { throw Invalid(message: "regular expression nested too deeply") }
            output += "(?:"
            try alternatives()
            guard peek == ")" else { throw Invalid(message: "missing ) in regular expression") }
            index += 1
            nesting -= 1
            output += ")"
        case "[": try characterClass()
        case ".": output += #"[^\n\r\x{2028}\x{2029}]"#
        case "\\": try escape()
        case "*", "+", "?":
            guard mayBeLiteral else { throw Invalid(message: "nothing to repeat in regular expression") }
            warnings.append("'(\(scalar)' in a regular expression looks for the character '\(scalar)'")
            literal(scalar)
        case "{":
            index -= 1
            if try bounds() != nil { throw Invalid(message: "nothing to repeat in regular expression") }
            index += 1
            literal(scalar)
        default: literal(scalar)
        }
    }

    private mutating func quantifier() throws(Invalid) {
        switch peek {
        case "*", "+", "?":
            output.unicodeScalars.append(scalars[index])
            index += 1
        case "{":
            guard let (low, high) = try bounds() else { return }
            output += low == high ? "{\(low)}" : "{\(low),\(high.map(String.init) ?? "")}"
        default: return
        }
        switch peek {
        case "*", "+", "?":
            throw Invalid(message: "nothing to repeat in regular expression (lazy quantifiers are not supported)")
        case "{":
            let begin = index
            if try bounds() != nil { throw Invalid(message: "nothing to repeat in regular expression") }
            index = begin
        default: break
        }
    }

    /// `{n}`, `{n,}` or `{n,m}`; nil, with nothing consumed, if the brace begins none of these.
    private mutating func bounds() throws(Invalid) -> (low: Int, high: Int?)? {
        let begin = index
        index += 1
        guard let low = digits() else {
            index = begin
            return nil
        }
        var high: Int? = low
        if peek == "," {
            index += 1
            high = digits()
        }
        guard peek == "}" else {
            index = begin
            return nil
        }
        index += 1
        if let high, high < low { throw Invalid(message: "numbers out of order in {} quantifier") }
        guard max(low, high ?? 0) <= 1000 else { throw Invalid(message: "a quantifier may not exceed 1000") }
        return (low, high)
    }

    private mutating func digits() -> Int? {
        var value: Int?
        while let scalar = peek, scalar.value &- 0x30 <= 9 {
            value = min((value ?? 0) * 10 + Int(scalar.value - 0x30), 1_000_000)
            index += 1
        }
        return value
    }

    private mutating func escape() throws(Invalid) {
        guard let scalar = peek else { throw Invalid(message: "\\ at end of regular expression") }
        index += 1
        switch scalar {
        case "d", "D", "w", "W": output += "\\\(scalar)"
        case "s": output += "[\(Self.space)]"
        case "S": output += "[\(Self.notSpace)]"
        default: literal(try escapedLiteral(scalar))
        }
    }

    private mutating func escapedLiteral(_ scalar: Unicode.Scalar) throws(Invalid) -> Unicode.Scalar {
        switch scalar {
        case "b", "B", "1"..."9":
            throw Invalid(message: "\\\(scalar) is not supported in regular expressions")
        case "a"..."z", "A"..."Z", "0":
            warnings.append("'\\\(scalar)' in a regular expression looks for the character '\(scalar)'")
            return scalar
        default: return scalar
        }
    }

    private mutating func literal(_ scalar: Unicode.Scalar) { output += Self.code(scalar) }

    private static func code(_ scalar: Unicode.Scalar) -> String {
        "\\x{" + String(scalar.value, radix: 16, uppercase: true) + "}"
    }

    private mutating func characterClass() throws(Invalid) {
        output += "["
        if peek == "^" {
            index += 1
            output += "^"
        }
        let begin = index
        while let scalar = peek, scalar != "]" {
            index += 1
            guard let low = try classMember(scalar) else { continue }
            guard peek == "-", index + 1 < scalars.count, scalars[index + 1] != "]" else {
                literal(low)
                continue
            }
            index += 1
            let next = scalars[index]
            index += 1
            guard let high = try classMember(next) else {
                // `[a-\d]`: the hyphen is itself.
                literal(low)
                literal("-")
                continue
            }
            guard low <= high else { throw Invalid(message: "invalid range in character class") }
            output += Self.code(low) + "-" + Self.code(high)
        }
        guard peek == "]" else { throw Invalid(message: "unterminated character class in regular expression") }
        guard index > begin else { throw Invalid(message: "empty character class in regular expression") }
        index += 1
        output += "]"
    }

    /// A single character of a class, or nil if it was a predefined set, which is then written already.
    private mutating func classMember(_ scalar: Unicode.Scalar) throws(Invalid) -> Unicode.Scalar? {
        guard scalar == "\\" else { return scalar }
        guard let escaped = peek else { throw Invalid(message: "unterminated character class in regular expression") }
        index += 1
        switch escaped {
        case "d", "D", "w", "W": output += "\\\(escaped)"
        case "s": output += Self.space
        case "S": output += Self.notSpace
        default: return try escapedLiteral(escaped)
        }
        return nil
    }
}
