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
            var depth = 1
            while depth > 0, let inner = rest.popFirst() {
                if inner == "\"" { _ = quoted() }
                if inner == "(" { depth += 1 }
                if inner == ")" { depth -= 1 }
            }
        }
        return text
    }
}
