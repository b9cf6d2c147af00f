/// A call in the sources that writes a line to the log.
struct LogCall: Equatable {
    /// The levels that the call may use.
    let levels: [String]
    /// The messages, with `…` for interpolations; empty if the message is a variable.
    let messages: [String]
    /// The names of the fields at the call.
    let fields: [String]

    /// The calls in a file's text, in order.
    static func all(in text: String) -> [LogCall] {
        let call = /(?:(?:[lL]ogger|\blog)\??\.(?:debug|info|notice|warning|error|log)|\bself\.warning)\(/
        return text.ranges(of: call).map { range in
            var scanner = ArgumentScanner(text[range.upperBound...])
            var arguments = scanner.arguments()
            var levels = [String(text[range].dropLast().split(separator: ".").last ?? "")]
            if levels == ["log"] {
                let first = arguments.isEmpty ? "" : arguments.removeFirst().code
                levels = first.matches(of: /\.(debug|info|notice|warning|error)\b/).map { String($0.1) }
            }
            let message = arguments.first
            let isChoice = message?.code.contains("?") == true
            let texts = message?.texts ?? []
            return LogCall(
                levels: levels, messages: isChoice || texts.isEmpty ? texts : [texts.joined()],
                fields: arguments.dropFirst().flatMap(\.names))
        }
    }
}

/// Splits the arguments of a call, as far as texts and brackets show.
private struct ArgumentScanner {
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
