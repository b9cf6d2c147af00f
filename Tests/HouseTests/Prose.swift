/// A line of a comment or of a page, reduced to its words. Code, quotations and the targets of links are not part of the words.
struct Prose {
    let path: String
    let line: Int
    let text: String
    /// Whether the line is the first one of its comment.
    let begins: Bool

    /// The words in lower case.
    var words: [String] { Self.words(of: text) }

    /// The comment lines of a Swift file, without those at the end of a line of code.
    static func comments(in file: SourceFiles.File) -> [Prose] {
        var found: [Prose] = []
        var isInside = false
        for (index, line) in file.lines.enumerated() {
            let trimmed = line.drop { $0 == " " }
            guard trimmed.hasPrefix("//") else {
                isInside = false
                continue
            }
            let text = trimmed.drop { $0 == "/" }.drop { $0 == " " }
            found.append(Prose(path: file.path, line: index + 1, text: String(text), begins: !isInside))
            isInside = true
        }
        return found
    }

    /// The lines of a Markdown page outside its blocks of code.
    static func page(_ path: String) -> [Prose] {
        var found: [Prose] = []
        var isCode = false
        for (index, line) in SourceFiles.text(path).split(separator: "\n", omittingEmptySubsequences: false)
            .enumerated()
        {
            if line.drop(while: { $0 == " " }).hasPrefix("```") {
                isCode.toggle()
            } else if !isCode, !line.hasPrefix("    ") {
                found.append(Prose(path: path, line: index + 1, text: String(line), begins: false))
            }
        }
        return found
    }

    private static func words(of text: String) -> [String] {
        var words: [String] = []
        var word = ""
        var closing: Character?
        var previous: Character = " "
        for character in text {
            defer { previous = character }
            if let end = closing {
                if character == end { closing = nil }
                continue
            }
            if character.isLetter || (character == "'" || character == "-") && !word.isEmpty {
                word.append(character)
                continue
            }
            if !word.isEmpty { words.append(word.lowercased()) }
            word = ""
            switch character {
            case "`", "\"": closing = character
            case "(" where previous == "]": closing = ")"
            default: break
            }
        }
        if !word.isEmpty { words.append(word.lowercased()) }
        return words
    }
}
