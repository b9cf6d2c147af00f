/// What an argument or an option's value is, as far as a shell can offer it. The name that stands for it in the help says so.
enum ValueKind: Equatable {
    /// A number, a name, a text: nothing that can be offered.
    case free
    case file
    case folder
    /// One of these words.
    case words([String])
    /// The name of a command, which may have several words.
    case command

    /// - Parameter placeholder: such as `FILE`, `[DIR]`, `FILE|-`, `COMMAND…` or `text|json`.
    init(_ placeholder: String) {
        let bare = placeholder.filter { $0 != "[" && $0 != "]" && $0 != "…" }
        let choices = bare.split(separator: "|").map(String.init)
        if choices.count > 1, choices.allSatisfy({ $0.allSatisfy { $0.isLowercase && $0.isASCII } }) {
            self = .words(choices)
        } else {
            switch choices.first {
            case "FILE": self = .file
            case "DIR": self = .folder
            case "COMMAND": self = .command
            default: self = .free
            }
        }
    }
}
