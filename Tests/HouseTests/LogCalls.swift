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
