public import Runtime

/// A text of a definition that not everybody may see: given itself, or as the name of a variable in the gateways' environment.
public enum HiddenText: Sendable, Equatable {
    case given(Secret<String>)
    /// `env:NAME`
    case environment(String)

    /// What stands for a given text where definitions are shown.
    public static let shown = "(set)"

    init(_ text: String) {
        self = text.hasPrefix("env:") ? .environment(String(text.dropFirst(4))) : .given(Secret(text))
    }

    /// As definitions have it; the text itself only where that is wanted.
    func definitionText(showsSecrets: Bool) -> String {
        switch self {
        case .given(let text): showsSecrets ? text.revealed() : Self.shown
        case .environment(let name): "env:\(name)"
        }
    }

    /// The variable's name, for messages.
    var variable: String {
        switch self {
        case .given: Self.shown
        case .environment(let name): name
        }
    }

    /// The text, where the environment has it.
    func text(_ environment: (String) -> String?) throws(WebhookError) -> Secret<String> {
        switch self {
        case .given(let text): return text
        case .environment(let name):
            guard let text = environment(name) else { throw .missingVariable(name) }
            return Secret(text)
        }
    }

    public static func == (left: HiddenText, right: HiddenText) -> Bool {
        left.definitionText(showsSecrets: true) == right.definitionText(showsSecrets: true)
    }
}
