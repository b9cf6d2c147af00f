/// An error that the sources send: over HTTP or over the realtime protocol.
struct SentError: Hashable {
    /// The HTTP status, or the status of the realtime protocol.
    let status: String
    /// The text, with `…` for interpolations.
    let text: String
}

/// Finds the errors in the sources.
struct SentErrors {
    /// A call whose text is no literal.
    struct Variable: Hashable {
        let status: String
        let file: String
        /// The code of the text.
        let code: String
    }

    /// The texts of the calls whose text is no literal.
    let variables: [Variable: [String]]
    /// Receives the calls without a literal and without an entry in `variables`.
    let unknown: (Variable) -> Void

    /// The errors of calls such as `RESTError(404, "…")` in the files below folders.
    func http(below folders: [String]) -> [SentError] {
        SourceTexts.calls(of: #/\b(?:RESTError|errorBody|reply)\(/#.wordBoundaryKind(.simple), below: folders).flatMap {
            file, arguments -> [SentError] in
            guard arguments.count > 1, let status = Int(arguments[0].code) else { return [] }
            return errors("\(status)", arguments[1], file)
        }
    }

    /// The refusals of calls such as `answer(number, "status", .text("…"))` in the files below folders.
    func realtime(below folders: [String]) -> [SentError] {
        let pattern = #/\b(?:answer|answerWrite|authRevoked)\(/#.wordBoundaryKind(.simple)
        return SourceTexts.calls(of: pattern, below: folders).flatMap { file, arguments -> [SentError] in
            let rest = arguments.drop { $0.texts.isEmpty && !$0.code.hasPrefix("RealtimeStatus.") }
            guard let first = rest.first, let detail = rest.dropFirst().first else { return [] }
            let status =
                first.texts.first
                ?? SourceTexts.constant(first.code.replacing(".rawValue", with: ""), below: "Sources/Wire/Realtime")
            if status == "ok" { return [] }
            return detail.code == ".none" ? [SentError(status: status, text: "")] : errors(status, detail, file)
        }
    }

    /// The errors of one call: the literals of an argument, the constant that it names, or the texts in `variables`.
    private func errors(_ status: String, _ argument: ArgumentScanner.Argument, _ file: String) -> [SentError] {
        let literals = argument.code.contains("?") ? argument.texts : [argument.texts.joined()]
        var texts = literals.map(SourceTexts.plain).filter { !$0.isEmpty && $0 != "…" }
        if texts.isEmpty {
            let name = argument.code.replacing(".text(", with: "").replacing(")", with: "")
            let variable = Variable(status: status, file: file, code: name)
            if name.contains(#/^(Self|[A-Z]\w+)\.\w+$/#) {
                texts = [SourceTexts.constant(name, below: "Sources/Gateway")]
            } else if let known = variables[variable] {
                texts = known
            } else {
                unknown(variable)
            }
        }
        return texts.map { SentError(status: status, text: $0) }
    }
}

/// Texts in the sources, by the code around them.
enum SourceTexts {
    static let files = SourceFiles.swift(below: "Sources").map {
        (path: $0.path, text: $0.lines.joined(separator: "\n"))
    }

    /// The calls of functions in the files below folders, with their arguments.
    static func calls(
        of pattern: some RegexComponent, below folders: [String]
    ) -> [(file: String, arguments: [ArgumentScanner.Argument])] {
        files.filter { file in folders.contains { file.path.hasPrefix($0) } }.flatMap { path, text in
            text.ranges(of: pattern).map { range in
                var scanner = ArgumentScanner(text[range.upperBound...])
                return (path, scanner.arguments())
            }
        }
    }

    /// Returns the cases of a property of an enum: `var description: String { switch self { case .name: "text" … } }`.
    static func cases(of property: String, of type: String, in file: String) -> [ArgumentScanner.Case] {
        guard let text = files.first(where: { $0.path == file })?.text,
            let start = text.firstRange(of: "enum \(type): ") ?? text.firstRange(of: "enum \(type) {"),
            let found = text[start.upperBound...].firstRange(of: "var \(property): "),
            let open = text[found.upperBound...].firstIndex(of: "{")
        else { return [] }
        var scanner = ArgumentScanner(text[text.index(after: open)...])
        return scanner.cases()
    }

    /// Returns the names of the cases that an enum declares.
    static func declaredCases(of type: String, in file: String) -> [String] {
        guard let text = files.first(where: { $0.path == file })?.text,
            let start = text.firstRange(of: "enum \(type): "),
            let open = text[start.upperBound...].firstIndex(of: "{")
        else { return [] }
        var scanner = ArgumentScanner(text[text.index(after: open)...])
        return scanner.block().code.matches(of: #/\n    case (\w+)/#).map { String($0.1) }
    }

    /// Returns the text of a constant such as `Self.tooMuchData`; empty if there is none.
    static func constant(_ name: String, below folder: String) -> String {
        let last = name.split(separator: ".").last ?? ""
        for (path, text) in files where path.hasPrefix(folder) {
            guard let range = text.firstRange(of: "static let \(last) ="),
                let quote = text[range.upperBound...].firstIndex(of: "\"")
            else { continue }
            var scanner = ArgumentScanner(text[quote...])
            return plain(scanner.arguments().first?.texts.first ?? "")
        }
        return ""
    }

    /// Returns the text with one blank for each sequence of white space.
    static func plain(_ text: String) -> String { text.split(whereSeparator: \.isWhitespace).joined(separator: " ") }
}
