/// Breaks lines between words where they would leave the terminal.
enum TextWrap {
    /// Narrower than this, lines are not broken: they would be a word each.
    private static let leastRoom = 16

    /// Help, each of its lines broken where need be. What follows two spaces or more, as the column of descriptions does, goes
    /// on below itself.
    static func help(_ text: String, to width: Int?) -> String {
        guard let width else { return text }
        return text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            let indent = description(in: line)
            // Where the terminal is too narrow for two columns, descriptions go on a little behind the names.
            return wrapped(String(line), to: width, indent: indent + leastRoom > width ? min(indent, 6) : indent)
        }.joined(separator: "\n")
    }

    /// The column in which a line's description begins; 0 where it has none.
    private static func description(in line: Substring) -> Int {
        guard line.hasPrefix("  ") else { return 0 }
        let left = line.drop { $0 == " " }
        guard let gap = left.firstRange(of: "  ") else { return 0 }
        let rest = left[gap.upperBound...].drop { $0 == " " }
        return line.count - rest.count
    }

    /// The text with ends of lines, none wider than `width`.
    ///
    /// - Parameters:
    ///   - width: the terminal's; nil where there is none, and lines stay whole.
    ///   - indent: spaces before every line but the first.
    ///   - used: columns of the first line that are taken already.
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
