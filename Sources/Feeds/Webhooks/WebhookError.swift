/// Why a webhook can't be delivered to, for want of something that its definition names.
public enum WebhookError: Error, Sendable, Equatable, CustomStringConvertible {
    case missingVariable(String)
    /// The variable holds no secret as Standard Webhooks has them.
    case badSecret(variable: String, reason: String)
    /// The variable holds what no header can.
    case badHeader(variable: String)

    public var description: String {
        switch self {
        case .missingVariable(let name):
            "The webhook wants the environment variable \(name), which this gateway does not have: set it, and start the gateway again."
        case .badSecret(let variable, let reason):
            "The environment variable \(variable) holds no webhook secret: \(reason)."
        case .badHeader(let variable):
            "The environment variable \(variable) holds control characters, which no HTTP header can have."
        }
    }
}
