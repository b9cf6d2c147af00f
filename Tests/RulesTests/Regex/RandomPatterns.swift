/// A regular expression in the syntax of the rules language and in that of the library dk.brics.automaton.
struct OraclePattern {
    /// The pattern with its anchors.
    var rules: String
    /// The pattern without anchors, predefined sets and the flag `i`, which the library does not support.
    var library: String
    var isAnchoredAtStart = false
    var isAnchoredAtEnd = false
    var ignoresCase = false
    /// The texts to match.
    var texts: [String]

    /// Whether the library's form of the pattern differs, apart from its anchors.
    var isTranslated: Bool {
        var plain = rules[...]
        if isAnchoredAtStart { plain = plain.dropFirst() }
        if isAnchoredAtEnd { plain = plain.dropLast() }
        return !plain.unicodeScalars.elementsEqual(library.unicodeScalars)
    }
}

/// Generates regular expressions and texts.
struct RandomPatterns {
    var random: SeededGenerator

    /// A part of a pattern in both forms, with a text that it matches if its repetitions and ranges are in order.
    private struct Part {
        var rules: String
        var library: String
        var sample: String

        static let empty = Part(rules: "", library: "", sample: "")

        static func + (left: Part, right: Part) -> Part {
            Part(
                rules: left.rules + right.rules, library: left.library + right.library,
                sample: left.sample + right.sample)
        }
    }

    private static let plain: [Character] = [
        "a", "b", "c", "A", "B", "Z", "0", "1", "9", " ", "\n", "\r", "\t", "<", ">", "@", "#", "&", "~", "-", "_", ",",
        "=", "/",
        ":", "]", "}", "é", "ß", "\u{A0}", "\u{2028}", "漢", "\u{FFFF}", "😀", "😁", "𐐀",
    ]
    private static let special: [Character] = ["*", "+", "?", "{", "|", ")", "(", "[", "\"", "\\", ".", "^", "$"]
    private static let escapedLetters: [Character] = ["b", "B", "t", "n", "Q", "1", "0", "u", "x", "p"]

    mutating func next() -> OraclePattern { random.chance(70) ? written() : scribbled() }

    // MARK: Patterns by the grammar

    private var ignoresCase = false

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    private mutating func written() -> OraclePattern {
        ignoresCase = random.chance(20)
        let part = union(3)
        var pattern = OraclePattern(
            rules: part.rules, library: part.library, isAnchoredAtStart: random.chance(60),
            isAnchoredAtEnd: random.chance(60), ignoresCase: ignoresCase, texts: [])
        if pattern.isAnchoredAtStart { pattern.rules = "^" + pattern.rules }
        if pattern.isAnchoredAtEnd { pattern.rules += "$" }
        pattern.texts = [part.sample, changed(part.sample), changed(changed(part.sample)), text()]
        return pattern
    }

    private mutating func union(_ depth: Int) -> Part {
        var result = concatenation(depth)
        let first = result.sample
        while random.chance(20) {
            let next = concatenation(depth)
            result = Part(
                rules: result.rules + "|" + next.rules, library: result.library + "|" + next.library,
                sample: random.chance(50) ? first : next.sample)
        }
        return result
    }

    private mutating func concatenation(_ depth: Int) -> Part {
        var result = Part.empty
        if random.chance(5) {
            // An operator without an operand is a character.
            let operation = String(random.pick(["*", "+", "?", "{", "|", ")"]))
            result = Part(rules: operation, library: operation, sample: operation)
            result = quantified(result)
        }
        for _ in 0..<(1 + random.below(3)) { result = result + quantified(atom(depth)) }
        return result
    }

    private mutating func quantified(_ atom: Part) -> Part {
        var result = atom
        while random.chance(result.rules == atom.rules ? 35 : 12) {
            // Counts of large parts make large automata.
            let isSmall = result.rules.utf16.count < 12
            let (low, high) = isSmall ? (random.below(4), random.below(5)) : (random.below(2), random.below(3))
            let suffix: String
            let count: Int
            switch random.below(6) {
            case 0: (suffix, count) = ("?", random.below(2))
            case 1: (suffix, count) = ("*", random.below(4))
            case 2: (suffix, count) = ("+", 1 + random.below(3))
            case 3: (suffix, count) = ("{\(low)}", low)
            case 4: (suffix, count) = ("{\(low),}", low + random.below(3))
            default: (suffix, count) = ("{\(low),\(high)}", max(low, high))
            }
            result.rules += suffix
            result.library += suffix
            result.sample = String(repeating: result.sample, count: count)
        }
        return result
    }

    private mutating func atom(_ depth: Int) -> Part {
        switch random.below(14) {
        case 0 where depth > 0:
            let inner = random.chance(10) ? .empty : union(depth - 1)
            return Part(rules: "(\(inner.rules))", library: "(\(inner.library))", sample: inner.sample)
        case 1 where depth > 0:
            let inner = union(depth - 1)
            return Part(rules: "(\(inner.rules))", library: "(\(inner.library))", sample: inner.sample)
        case 2: return Part(rules: ".", library: ".", sample: character(withoutPairs: true))
        case 3, 4: return predefined()
        case 5, 6, 7: return characterClass()
        case 8: return quotation()
        case 9:
            let character = random.pick(Self.special)
            return Part(rules: "\\\(character)", library: "\\\(character)", sample: String(character))
        case 10:
            let character = random.pick(Self.escapedLetters)
            return Part(
                rules: "\\\(character)", library: bothCases(character) ?? "\\\(character)", sample: String(character))
        default:
            let character = random.pick(Self.plain)
            return Part(
                rules: String(character), library: bothCases(character) ?? String(character), sample: String(character))
        }
    }

    private func bothCases(_ character: Character) -> String? {
        guard ignoresCase else { return nil }
        if character == "é" { return "[éÉ]" }
        guard character.isASCII, character.isLetter else { return nil }
        return "[\(character.lowercased())\(character.uppercased())]"
    }

    private static let sets: [(rules: String, inClass: String, sample: String)] = [
        ("\\d", "0-9", "7"), ("\\w", "0-9A-Za-z_", "q"), ("\\s", "\t\n\r ", "\r"),
        ("\\D", "\u{0}-/:-\u{FFFF}", "é"), ("\\W", "\u{0}-/:-@[-\\^`{-\u{FFFF}", "-"),
        ("\\S", "\u{0}-\u{8}\u{B}\u{C}\u{E}-\u{1F}!-\u{FFFF}", "\u{A0}"),
    ]

    private mutating func predefined() -> Part {
        let set = random.pick(Self.sets)
        return Part(rules: set.rules, library: "[\(set.inClass)]", sample: set.sample)
    }

    private mutating func characterClass() -> Part {
        let isNegated = random.chance(25)
        var members = Part.empty
        for _ in 0..<(1 + random.below(4)) { members = members + classMember() }
        if !ignoresCase, random.chance(8) {
            members = Part(rules: "]" + members.rules, library: "]" + members.library, sample: members.sample)
        }
        if random.chance(10) { members = members + Part(rules: "-", library: "\\-", sample: "-") }
        let sample = isNegated ? character(withoutPairs: true) : String(members.sample.first ?? "a")
        let opening = isNegated ? "[^" : "["
        return Part(rules: opening + members.rules + "]", library: opening + members.library + "]", sample: sample)
    }

    private mutating func classMember() -> Part {
        switch random.below(8) {
        case 0:
            let set = random.pick(Self.sets)
            return Part(rules: set.rules, library: set.inClass, sample: set.sample)
        case 1:
            // Before a set, the hyphen is a character.
            let set = random.pick(Self.sets)
            return Part(rules: "_-\(set.rules)", library: "_\\-\(set.inClass)", sample: set.sample)
        case 2, 3:
            let (low, high) = random.pick([("a", "c"), ("b", "y"), ("c", "a"), ("x", "x"), ("m", "n")])
            let other = ignoresCase && low <= high ? "\(low.uppercased())-\(high.uppercased())" : ""
            return Part(rules: "\(low)-\(high)", library: "\(low)-\(high)\(other)", sample: high)
        case 4:
            let (low, high) = random.pick([
                ("0", "5"), ("!", "/"), ("\u{0}", "\u{1F}"), ("\u{100}", "\u{3FF}"), ("\u{FF}", "\u{2345}"),
                ("漢", "\u{FFFF}"),
                ("\u{3000}", "\u{30FF}"), ("9", "0"),
            ])
            // Characters of these ranges have other cases outside them.
            if ignoresCase, low >= "\u{FF}" { return Part(rules: "漢", library: "漢", sample: "漢") }
            return Part(rules: "\(low)-\(high)", library: "\(low)-\(high)", sample: high)
        case 5:
            let character = random.pick(Self.special + ["]", "-", "a", "b"])
            // No escaped character that is a set.
            let library = bothCases(character).map { String($0.dropFirst().dropLast()) } ?? "\\\(character)"
            return Part(rules: "\\\(character)", library: library, sample: String(character))
        default:
            let character = random.pick(
                Self.plain.filter { !["-", "]", "/"].contains($0) } + ["(", "*", ".", "|", "\"", "$"])
            let library = bothCases(character).map { String($0.dropFirst().dropLast()) } ?? String(character)
            return Part(rules: String(character), library: library, sample: String(character))
        }
    }

    private mutating func quotation() -> Part {
        var text = ""
        for _ in 0..<random.below(4) { text.append(random.pick(Self.plain + ["*", "(", ".", "\\", "^", "["])) }
        let library = ignoresCase ? "(\(text.map { bothCases($0) ?? "\"\($0)\"" }.joined()))" : "\"\(text)\""
        return Part(rules: "\"\(text)\"", library: library, sample: text)
    }

    // MARK: Patterns without a grammar

    private static let tokens = [
        "a", "b", "0", "1", "2", ".", "*", "+", "?", "{", "}", "[", "[^", "]", "(", ")", ",", "|", "\"", "-", "\\", "<",
        ">", "&",
        "~", "@", "#", "é", "😀", "\n", "{2}", "{1,2}", "{,", "(a", "b)", "[a", "b]",
    ]

    private mutating func scribbled() -> OraclePattern {
        var pattern = ""
        for _ in 0...random.below(10) { pattern += random.pick(Self.tokens) }
        return OraclePattern(
            rules: pattern, library: pattern,
            texts: [text(), text(), changed(pattern), pattern.filter { $0 == "a" || $0 == "b" }])
    }

    // MARK: Texts

    private mutating func character(withoutPairs: Bool = false) -> String {
        while true {
            let character = String(random.pick(Self.plain + Self.special))
            if !withoutPairs || character.utf16.count == 1 { return character }
        }
    }

    private mutating func text() -> String { (0..<random.below(6)).map { _ in character() }.joined() }

    /// Returns a text that differs slightly.
    private mutating func changed(_ text: String) -> String {
        var scalars = Array(text.unicodeScalars.prefix(60))
        let added = Array(character().unicodeScalars)
        let offset = random.below(scalars.count + 1)
        switch random.below(5) {
        case 0: scalars.insert(contentsOf: added, at: 0)
        case 1: scalars.append(contentsOf: added)
        case 2: scalars.insert(contentsOf: added, at: offset)
        case 3 where offset < scalars.count: scalars.remove(at: offset)
        default: if offset < scalars.count { scalars[offset] = added[0] }
        }
        var result = String.UnicodeScalarView()
        result.append(contentsOf: scalars)
        return ignoresCase && random.chance(30) ? String(result).uppercased() : String(result)
    }
}
