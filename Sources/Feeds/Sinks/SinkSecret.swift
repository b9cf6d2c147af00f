import JSONText
public import Runtime

/// A secret of a sink's definition: written there, or the name of an environment variable of the gateway (`env:NAME`).
public enum SinkSecret: Sendable, Equatable {
    case variable(String)
    case text(Secret<String>)

    /// What stands in place of a secret where nobody may see it.
    public static let mask = "(set)"
    private static let prefix = "env:"
    /// Which variables may be named: else whoever defines feeds could have any secret of the gateway sent to a server of theirs.
    public static let variablePrefix = "PATHMIRROR_SINK_"

    init(_ text: String) {
        self = text.hasPrefix(Self.prefix) ? .variable(String(text.dropFirst(Self.prefix.count))) : .text(Secret(text))
    }

    public static func == (left: Self, right: Self) -> Bool {
        left.written(showsSecrets: true) == right.written(showsSecrets: true)
    }

    /// As a definition has it.
    func written(showsSecrets: Bool) -> String {
        switch self {
        case .variable(let name): Self.prefix + name
        case .text(let secret): showsSecrets ? secret.revealed() : Self.mask
        }
    }

    /// What is wrong with it; nil where nothing is.
    var fault: String? {
        switch self {
        case .variable(let name):
            name.hasPrefix(Self.variablePrefix) && name.utf8.count > Self.variablePrefix.utf8.count
                ? nil : "env: needs an environment variable whose name begins with \(Self.variablePrefix)"
        case .text(let secret):
            switch secret.revealed() {
            case Self.mask:
                "\"\(Self.mask)\" stands for a secret that is not shown; write the secret itself or env:NAME"
            case "": "is empty"
            default: nil
            }
        }
    }

    /// The secret itself.
    ///
    /// - Parameter variable: looks an environment variable up.
    func value(_ variable: (String) -> String?) throws(SinkError) -> Secret<String> {
        switch self {
        case .text(let secret): return secret
        case .variable(let name):
            guard fault == nil, let value = variable(name), !value.isEmpty else {
                throw SinkError("The gateway has no environment variable \(name), or it is empty.")
            }
            return Secret(value)
        }
    }
}

/// Why a sink can't work, in a sentence. Holds no secrets.
public struct SinkError: Error, Sendable, Equatable, CustomStringConvertible {
    public let description: String

    init(_ description: String) { self.description = description }
}
