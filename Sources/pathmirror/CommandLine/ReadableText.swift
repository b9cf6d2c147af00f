/// Numbers with their nouns in singular or plural.
enum Counted {
    /// `1 record`, `2 records`; `1 entry`, `0 entries`; `2 leaves`.
    static func text(_ number: some BinaryInteger, _ noun: String) -> String {
        guard number != 1 else { return "\(number) \(noun)" }
        if noun.hasSuffix("leaf") { return "\(number) \(noun.dropLast())ves" }
        let endsInConsonantAndY = noun.hasSuffix("y") && noun.dropLast().last.map { !"aeiou".contains($0) } == true
        return "\(number) " + (endsInConsonantAndY ? "\(noun.dropLast())ies" : "\(noun)s")
    }

    /// A number and a noun given in the plural: `1 entry`, `2 entries`; `1 row compared`.
    static func text(_ number: some BinaryInteger, of things: String) -> String {
        guard number == 1 else { return "\(number) \(things)" }
        let noun = things.prefix { $0 != " " }
        let one = noun.hasSuffix("ies") ? "\(noun.dropLast(3))y" : noun == "leaves" ? "leaf" : "\(noun.dropLast())"
        return "\(number) \(one)\(things.dropFirst(noun.count))"
    }

    /// A number, a noun and the verb that agrees with it: `1 record was`, `2 records were`.
    static func text(_ number: some BinaryInteger, _ noun: String, _ one: String, _ many: String) -> String {
        "\(text(number, noun)) \(number == 1 ? one : many)"
    }
}

/// Lag in readable units.
enum LagText {
    /// `250 ms`, `3 s`, `9 min`, `5 h`, `3 d`: whole units, of the largest that fits.
    static func text(seconds: Double) -> String {
        let whole = Int64(min(max(0, seconds), 1e15))
        switch whole {
        case ..<1: return "\(Int64((max(0, seconds) * 1_000).rounded())) ms"
        case ..<60: return "\(whole) s"
        case ..<3_600: return "\(whole / 60) min"
        case ..<172_800: return "\(whole / 3_600) h"
        default: return "\(whole / 86_400) d"
        }
    }
}

/// The number of terminal columns that a text takes.
enum TextWidth {
    static func of(_ text: String) -> Int { text.reduce(0) { $0 + of($1) } }

    /// The text, cut with a `…` if it is wider than `width` columns. Line ends and other control characters, which would break the line,
    /// become spaces.
    static func fitted(_ text: String, to width: Int) -> String {
        let line = plain(text)
        guard of(line) > width else { return line }
        var kept = ""
        var left = width - 1
        for character in line {
            left -= of(character)
            guard left >= 0 else { break }
            kept.append(character)
        }
        return width > 0 ? kept + "…" : ""
    }

    /// The text with spaces instead of control characters: lists show texts of other users, which could contain terminal commands.
    static func plain(_ text: String) -> String { String(text.map { isControl($0) ? " " : $0 }) }

    /// Control characters, Unicode's line separators, and marks that change the text direction.
    private static func isControl(_ character: Character) -> Bool {
        character.unicodeScalars.contains { scalar in
            switch scalar.value {
            case 0..<0x20, 0x7F...0x9F, 0x2028...0x202E, 0x2066...0x2069: true
            default: false
            }
        }
    }

    /// The width of one grapheme cluster: a letter with its marks, or an emoji of several parts.
    private static func of(_ character: Character) -> Int {
        let scalars = character.unicodeScalars
        // An emoji by itself, or by a variation selector.
        let isPicture = scalars.first?.properties.isEmojiPresentation == true || scalars.contains { $0.value == 0xFE0F }
        if isPicture { return 2 }
        return scalars.map(of).max() ?? 0
    }

    private static func of(_ scalar: Unicode.Scalar) -> Int {
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format, .control: return scalar.value == 0xAD ? 1 : 0
        default: return wide.contains { $0.contains(scalar.value) } ? 2 : 1
        }
    }

    /// The ranges with East Asian Width W or F in Unicode.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2329...0x232A, 0x2E80...0x303E, 0x3041...0x33FF, 0x3400...0x4DBF, 0x4E00...0x9FFF,
        0xA000...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE10...0xFE19, 0xFE30...0xFE6F,
        0xFF01...0xFF60, 0xFFE0...0xFFE6, 0x17000...0x18CFF, 0x1AFF0...0x1B2FF, 0x1F200...0x1F2FF, 0x20000...0x3FFFD,
    ]
}

/// Breaks lines between words at the terminal's width.
enum TextWrap {
    /// The least number of columns for text. Narrower text is not broken, as each line would hold one word.
    private static let leastRoom = 16

    /// Returns help with its long lines broken. Text after two or more spaces, such as the column of descriptions, continues in its own
    /// column.
    static func help(_ text: String, to width: Int?) -> String {
        guard let width else { return text }
        return text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            let indent = description(in: line)
            // If the terminal is too narrow for two columns, the continuation is indented a little.
            return wrapped(String(line), to: width, indent: indent + leastRoom > width ? min(indent, 6) : indent)
        }.joined(separator: "\n")
    }

    /// The column in which a line's description begins; 0 if there is none.
    private static func description(in line: Substring) -> Int {
        guard line.hasPrefix("  ") else { return 0 }
        let left = line.drop { $0 == " " }
        guard let gap = left.firstRange(of: "  ") else { return 0 }
        let rest = left[gap.upperBound...].drop { $0 == " " }
        return line.count - rest.count
    }

    /// Returns the text with line breaks, so that no line is wider than `width`.
    ///
    /// - Parameters:
    ///   - width: the terminal's; nil without a terminal, which leaves lines whole.
    ///   - indent: spaces before every line but the first.
    ///   - used: columns of the first line that are already taken.
    static func wrapped(_ text: String, to width: Int?, indent: Int = 0, used: Int = 0) -> String {
        guard let width, width - indent >= leastRoom else { return text }
        var lines: [String] = []
        var line = String(text.prefix { $0 == " " })
        var left = width - used - line.count
        var isBegun = false
        for word in text.dropFirst(line.count).split(separator: " ", omittingEmptySubsequences: false) {
            let columns = TextWidth.of(String(word))
            if isBegun, columns + 1 > left {
                lines.append(line)
                line = ""
                left = width - indent
                isBegun = false
            }
            if isBegun {
                line += " "
                left -= 1
            }
            line += word
            left -= columns
            isBegun = true
        }
        lines.append(line)
        return lines.joined(separator: "\n" + String(repeating: " ", count: indent))
    }
}
