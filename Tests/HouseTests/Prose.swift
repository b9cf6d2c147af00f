/// A line of a comment or of a page, or a text of the program, reduced to its words. Code, quotations, the names in lists of
/// parameters and the targets of links are not part of the words.
struct Prose {
    let path: String
    let line: Int
    let text: String
    /// Whether the line is the first one of its comment.
    var begins = false

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
            let text = withoutParameter(trimmed.drop { $0 == "/" }.drop { $0 == " " })
            found.append(Prose(path: file.path, line: index + 1, text: text, begins: !isInside))
            isInside = true
        }
        return found
    }

    /// The comment lines and docstrings of a Python file, without comments at the end of a line of code. Lines that are indented by
    /// four more spaces than their docstring are code.
    static func python(in file: SourceFiles.File) -> [Prose] {
        var found: [Prose] = []
        var isComment = false
        // A string of several lines: its indentation if it is a docstring, or -1.
        var string: Int?
        var opensBlock = true
        for (index, line) in file.lines.enumerated() {
            let trimmed = line.drop { $0 == " " }
            let indentation = line.count - trimmed.count
            let marks = line.split(separator: "\"\"\"", omittingEmptySubsequences: false).count - 1
            func add(_ text: some StringProtocol, begins: Bool) {
                found.append(Prose(path: file.path, line: index + 1, text: String(text), begins: begins))
            }
            if let inside = string {
                if inside >= 0, indentation < inside + 4 {
                    let text = trimmed.split(separator: "\"\"\"", omittingEmptySubsequences: false)[0]
                    if marks == 0 || !text.isEmpty { add(text, begins: false) }
                }
                if marks % 2 == 1 { string = nil }
                continue
            }
            if trimmed.hasPrefix("#") {
                if !trimmed.hasPrefix("#!") {
                    add(trimmed.drop { $0 == "#" }.drop { $0 == " " }, begins: !isComment)
                    isComment = true
                }
                continue
            }
            isComment = false
            if trimmed.isEmpty { continue }
            let isDocstring = opensBlock && (trimmed.hasPrefix("\"\"\"") || trimmed.hasPrefix("r\"\"\""))
            if isDocstring {
                add(trimmed.split(separator: "\"\"\"", omittingEmptySubsequences: false)[1], begins: true)
            }
            if marks % 2 == 1 { string = isDocstring ? indentation : -1 }
            opensBlock = trimmed.hasSuffix(":")
        }
        return found
    }

    /// The comment lines of a shell script or of a file of settings, without those at the end of a line. Lines that are indented by
    /// three spaces within their comment are code.
    static func script(in file: SourceFiles.File) -> [Prose] {
        var found: [Prose] = []
        var isInside = false
        for (index, line) in file.lines.enumerated() {
            let trimmed = line.drop { $0 == " " || $0 == "\t" }
            guard trimmed.hasPrefix("#"), !trimmed.hasPrefix("#!"), !trimmed.hasPrefix("# shellcheck ") else {
                isInside = false
                continue
            }
            let text = trimmed.dropFirst()
            if !text.hasPrefix("   ") {
                found.append(
                    Prose(path: file.path, line: index + 1, text: String(text.drop { $0 == " " }), begins: !isInside))
            }
            isInside = true
        }
        return found
    }

    /// The lines of a Markdown page outside its blocks of code.
    static func page(_ path: String) -> [Prose] {
        var found: [Prose] = []
        var isCode = false
        let lines = SourceFiles.text(path).split(separator: "\n", omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() {
            if line.drop(while: { $0 == " " }).hasPrefix("```") {
                isCode.toggle()
            } else if !isCode, !line.hasPrefix("    ") {
                found.append(Prose(path: path, line: index + 1, text: String(line)))
            }
        }
        return found
    }

    /// The texts of a Swift file that fit on a line and have at least three words: help, errors and log lines. SQL is no prose.
    static func texts(in file: SourceFiles.File) -> [Prose] {
        file.lines.enumerated().flatMap { index, line in
            quotations(in: line).filter { text in
                words(of: text).count >= 3 && !statements.contains { text.lowercased().contains($0) }
            }.map { Prose(path: file.path, line: index + 1, text: $0) }
        }
    }

    private static let statements = [
        "select ", "insert into ", "delete from ", "update pathmirror", "alter table ", "create ", "drop ", "order by ",
        "where ",
        "returning ", "grant ", "lock table", "set local ", "savepoint ",
    ]

    /// The texts between quotation marks in a line of code. A value in a text counts as code.
    private static func quotations(in line: String) -> [String] {
        var found: [String] = []
        var text = ""
        var depth = 0
        var isInside = false
        var previous: Character = " "
        for character in line {
            defer { previous = character }
            if !isInside {
                if character == "/", previous == "/" { return found }
                if character == "\"" { isInside = true }
            } else if depth > 0 {
                if character == "(" { depth += 1 }
                if character == ")" { depth -= 1 }
            } else if character == "(", previous == "\\" {
                depth = 1
                text.append(" ")
            } else if character == "\"", previous != "\\" {
                found.append(text)
                text = ""
                isInside = false
            } else if character != "\\" {
                text.append(character == "\"" ? " " : character)
            }
        }
        return found
    }

    /// The text after the name in an item of a list of parameters.
    private static func withoutParameter(_ text: Substring) -> String {
        guard text.hasPrefix("- "), let colon = text.firstIndex(of: ":") else { return String(text) }
        let name = text[..<colon].dropFirst(2).split(separator: " ")
        let isName =
            name.count == 1 || name.first == "Parameter" && name.count == 2
            || name.dropLast().allSatisfy { $0.hasSuffix(",") }
        return isName ? String(text[text.index(after: colon)...]) : String(text)
    }

    private static func words(of text: String) -> [String] {
        var words: [String] = []
        var word = ""
        var closing: Character?
        var previous: Character = " "
        for character in text {
            defer { previous = character }
            if let end = closing {
                guard character == end else { continue }
                closing = nil
                // Words before and after code do not form a phrase.
                words.append("…")
                continue
            }
            if character.isLetter || character == "_" || (character == "'" || character == "-") && !word.isEmpty {
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
