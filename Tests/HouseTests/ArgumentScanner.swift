/// Splits the arguments of a call, as far as texts and brackets show.
struct ArgumentScanner {
    struct Argument {
        /// The code outside of texts.
        var code = ""
        var texts: [String] = []
        /// Texts directly after an opening parenthesis, and before a comma: names of fields.
        var names: [String] = []
    }

    private var rest: Substring

    /// - Parameter rest: begins after the call's parenthesis.
    init(_ rest: Substring) { self.rest = rest }

    mutating func arguments() -> [Argument] {
        var arguments = [Argument()]
        var depth = 0
        while let character = rest.popFirst() {
            switch character {
            case "\"":
                let isFirst = arguments[arguments.count - 1].code.last == "("
                let text = quoted()
                arguments[arguments.count - 1].texts.append(text)
                if isFirst, rest.first == "," { arguments[arguments.count - 1].names.append(text) }
                continue
            case "(", "[", "{": depth += 1
            case ")", "]", "}":
                if depth == 0 { return arguments.filter { !$0.code.isEmpty || !$0.texts.isEmpty } }
                depth -= 1
            case "," where depth == 0:
                arguments.append(Argument())
                continue
            default: break
            }
            if !character.isWhitespace { arguments[arguments.count - 1].code.append(character) }
        }
        return arguments
    }

    /// The text up to its closing quote.
    private mutating func quoted() -> String {
        if rest.hasPrefix("\"\"\n") { return quotedLines() }
        var text = ""
        while let character = rest.popFirst(), character != "\"" {
            guard character == "\\", let escaped = rest.popFirst() else {
                text.append(character)
                continue
            }
            guard escaped == "(" else {
                text.append(escaped)
                continue
            }
            text += "…"
            skipInterpolation()
        }
        return text
    }

    /// The text of several lines up to three quotes.
    private mutating func quotedLines() -> String {
        rest.removeFirst(2)
        var text = ""
        while !rest.hasPrefix("\"\"\""), let character = rest.popFirst() {
            guard character == "\\", let escaped = rest.popFirst() else {
                text.append(character)
                continue
            }
            if escaped == "(" {
                text += "…"
                skipInterpolation()
            } else {
                text.append(escaped)
            }
        }
        rest = rest.dropFirst(3)
        return text
    }

    private mutating func skipInterpolation() {
        var depth = 1
        while depth > 0, let inner = rest.popFirst() {
            if inner == "\"" { _ = quoted() }
            if inner == "(" { depth += 1 }
            if inner == ")" { depth -= 1 }
        }
    }
}

extension ArgumentScanner {
    /// A case of a `switch` in a property.
    struct Case {
        let name: String
        /// The text that the case has; `…` if it has no literal.
        let text: String
        /// The code after the colon.
        let code: String
    }

    /// Returns the cases of a `switch`, up to the closing brace of the property. The scanner is after the opening brace.
    mutating func cases() -> [Case] {
        let (code, texts) = block()
        return code[...].components(before: "case .").flatMap { part -> [Case] in
            guard let end = part.firstIndex(of: ":") else { return [] }
            let names = part[..<end].matches(of: #/(?:case |, |,\n *)\.(\w+)/#).map { String($0.1) }
            // A case with several statements returns its text in the last one.
            let body = part[end...].components(before: "return ").last ?? part[end...]
            let found = body.matches(of: #/(separator: )?"(\d+)"/#).map { match in
                match.1 == nil ? Int(match.2).map { texts[$0] } ?? "" : "…"
            }.joined()
            let text = found.split(whereSeparator: \.isWhitespace).joined(separator: " ")
            return names.map { Case(name: $0, text: text.isEmpty ? "…" : text, code: String(part[end...].dropFirst())) }
        }
    }

    /// Returns the code up to the closing brace, in which each text is replaced by its index in quotes.
    mutating func block() -> (code: String, texts: [String]) {
        var code = ""
        var texts: [String] = []
        var depth = 0
        while let character = rest.popFirst() {
            switch character {
            case "\"":
                code += "\"\(texts.count)\""
                texts.append(quoted())
                continue
            case "{": depth += 1
            case "}":
                if depth == 0 { return (code, texts) }
                depth -= 1
            default: break
            }
            code.append(character)
        }
        return (code, texts)
    }
}

extension Substring {
    /// Splits before each occurrence of `mark`, and drops what comes before the first.
    func components(before mark: String) -> [Substring] {
        let starts = ranges(of: mark).map(\.lowerBound)
        return zip(starts, starts.dropFirst() + [endIndex]).map { self[$0..<$1] }
    }
}
