import JSONText
public import Runtime

/// A secret in a sink's definition: its text, or the name of an environment variable of the gateway (`env:NAME`).
public enum SinkSecret: Sendable, Equatable {
    case variable(String)
    case text(Secret<String>)

    /// The text shown in place of a secret.
    public static let mask = "(set)"
    private static let prefix = "env:"
    /// The prefix of the variables that definitions may name. Otherwise a user who defines feeds could have any secret of the
    /// gateway sent to a server of their own.
    public static let variablePrefix = "PATHMIRROR_SINK_"
    /// The prefix of variables for one namespace. The namespace's name in capitals follows, then `__`, and a name without `__`.
    private static let ownPrefix = "PATHMIRROR_SINK_NS_"

    init(_ text: String) {
        self = text.hasPrefix(Self.prefix) ? .variable(String(text.dropFirst(Self.prefix.count))) : .text(Secret(text))
    }

    public static func == (left: Self, right: Self) -> Bool {
        left.definitionText(showsSecrets: true) == right.definitionText(showsSecrets: true)
    }

    /// Returns the text for a definition, with the secret itself only if requested.
    func definitionText(showsSecrets: Bool) -> String {
        switch self {
        case .variable(let name): Self.prefix + name
        case .text(let secret): showsSecrets ? secret.revealed() : Self.mask
        }
    }

    /// The mistake in the secret's text, or nil if it is valid.
    var fault: String? {
        switch self {
        case .variable(let name):
            name.hasPrefix(Self.variablePrefix) && name.utf8.count > Self.variablePrefix.utf8.count
                ? nil : "env: needs an environment variable whose name begins with \(Self.variablePrefix)"
        case .text(let secret):
            switch secret.revealed() {
            case Self.mask:
                "\"\(Self.mask)\" stands for a hidden secret; write the secret itself or env:NAME"
            case "": "is empty"
            default: nil
            }
        }
    }

    /// Returns whether the definitions of a namespace may name a variable: one for all namespaces, or one for this namespace.
    static func mayName(_ variable: String, in namespace: String) -> Bool {
        guard variable.hasPrefix(ownPrefix) else { return variable.hasPrefix(variablePrefix) }
        let capitals = String(
            namespace.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? Character($0.uppercased()) : "_" })
        let own = "\(ownPrefix)\(capitals)__"
        guard variable.hasPrefix(own) else { return false }
        // Otherwise the variables of `shop` and `shop_` or `shop__eu` could be confused.
        let name = variable.dropFirst(own.count)
        return !name.isEmpty && !name.hasPrefix("_") && !name.contains("__")
    }

    /// Returns the secret itself.
    ///
    /// - Parameter variable: Looks up an environment variable.
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

/// The reason why a sink cannot work, as a sentence. Contains no secrets.
public struct SinkError: Error, Sendable, Equatable, CustomStringConvertible {
    public let description: String

    init(_ description: String) { self.description = description }
}
