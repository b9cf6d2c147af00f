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
    /// Variables that are for one namespace go on with its name in capitals, `__`, and a name of their own without `__`.
    private static let ownPrefix = "PATHMIRROR_SINK_NS_"

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

    /// Whether the definitions of a namespace may name a variable: one that is for all namespaces, or for this one.
    static func mayName(_ variable: String, in namespace: String) -> Bool {
        guard variable.hasPrefix(ownPrefix) else { return variable.hasPrefix(variablePrefix) }
        let capitals = String(
            namespace.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? Character($0.uppercased()) : "_" })
        let own = "\(ownPrefix)\(capitals)__"
        guard variable.hasPrefix(own) else { return false }
        // So that `shop` is not taken for `shop_` or `shop__eu`.
        let name = variable.dropFirst(own.count)
        return !name.isEmpty && !name.hasPrefix("_") && !name.contains("__")
    }

    /// The secret itself.
    ///
    /// - Parameter variable: looks an environment variable up.
    func value(_ variable: (String) -> String?) throws(SinkError) -> Secret<String> {
        switch self {
        case .text(let secret): return secret
        case .variable(let name):
            guard fault == nil, let value = variable(name), !value.isEmpty else {
                throw SinkError("The gateway has no environment variable \(name) for this namespace, or it is empty.")
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

extension SinkSecret {
    /// As a webhook's definition has it: the secret itself only where that is wanted.
    func definitionText(showsSecrets: Bool) -> String {
        switch self {
        case .variable(let name): "env:\(name)"
        case .text(let text): showsSecrets ? text.revealed() : Self.mask
        }
    }
}
