import KafkaClient

/// An environment variable from which a feed's destination takes a secret.
public struct SinkVariable: Sendable, Equatable {
    /// The first member of the definition that names the variable, such as `webhook.secrets[0]`.
    public let member: String
    public let name: String
    /// Whether the variable holds the name of a file.
    public let isFile: Bool
}

extension FeedDestination {
    /// The environment variables that gateways need for the destination, each once.
    public var variables: [SinkVariable] {
        var found: [SinkVariable] = []
        for (member, secret, isFile) in secrets {
            guard case .variable(let name) = secret, !found.contains(where: { $0.name == name }) else { continue }
            found.append(SinkVariable(member: member, name: name, isFile: isFile))
        }
        return found
    }

    private typealias Member = (member: String, secret: SinkSecret, isFile: Bool)

    private var secrets: [Member] {
        switch self {
        case .webhook(let webhook):
            webhook.secrets.enumerated().map { ("webhook.secrets[\($0)]", $1, false) }
                + webhook.headers.map { ("webhook.headers.\($0.name)", $0.value, false) }
        case .nats(let nats):
            Self.secrets(of: nats.credentials) + (nats.authorities.map { [("nats.ca", $0, true)] } ?? [])
        case .kafka(let kafka):
            kafka.properties.sorted { $0.key < $1.key }.map { name, value in
                ("kafka.properties.\(name)", value, KafkaProperty.files.contains(name))
            }
        }
    }

    private static func secrets(of credentials: NATSDefinition.Credentials) -> [Member] {
        switch credentials {
        case .none: []
        case .password(_, let password): [("nats.password", password, false)]
        case .token(let token): [("nats.token", token, false)]
        case .file(let file): [("nats.credentials", file, true)]
        }
    }
}
