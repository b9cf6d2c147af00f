/// How many columns text takes on a terminal.
enum TextWidth {
    static func of(_ text: String) -> Int { text.reduce(0) { $0 + of($1) } }

    /// The text, cut with a `…` where it is wider than so many columns. Line ends and other controls, which would leave the
    /// line, become spaces.
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

    /// The text with spaces for what would leave the line, or have a terminal do something: texts of others are in lists.
    static func plain(_ text: String) -> String { String(text.map { isControl($0) ? " " : $0 }) }

    /// Control characters, other ends of lines, and what turns the order of letters around.
    private static func isControl(_ character: Character) -> Bool {
        character.unicodeScalars.contains { scalar in
            switch scalar.value {
            case 0..<0x20, 0x7F...0x9F, 0x2028...0x202E, 0x2066...0x2069: true
            default: false
            }
        }
    }

    /// One of what readers take for a character: a letter with its marks, an emoji of several parts.
    private static func of(_ character: Character) -> Int {
        let scalars = character.unicodeScalars
        // A picture by its own nature, or because a selector says so.
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

    /// What Unicode's East Asian Width calls wide or full.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2329...0x232A, 0x2E80...0x303E, 0x3041...0x33FF, 0x3400...0x4DBF, 0x4E00...0x9FFF,
        0xA000...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE10...0xFE19, 0xFE30...0xFE6F,
        0xFF01...0xFF60, 0xFFE0...0xFFE6, 0x17000...0x18CFF, 0x1AFF0...0x1B2FF, 0x1F200...0x1F2FF, 0x20000...0x3FFFD,
    ]
}
