/// Why a request has no response. Holds no more of the request than a host's name: addresses may carry secrets.
public enum HTTPClientError: Error, Equatable, Sendable, CustomStringConvertible {
    case cannotStart(String)
    /// The request itself can't be sent, such as an address that is none.
    case badRequest(String)
    case timedOut
    /// The host's name is not known, or nothing listens there.
    case unreachable(String)
    /// The host leads to addresses that the request must not reach, such as those of private networks.
    case addressNotAllowed(host: String)
    /// The peer is not who it should be, or doesn't speak TLS.
    case insecure(String)
    case tooManyRedirects
    case responseTooLarge
    /// The connection broke, or what came is not HTTP.
    case failed(String)
    /// The request found no slot: too many others wait, or its time to wait is over. No server has seen any of it.
    case notSent(String)
    /// The client was stopped.
    case refused(String)
    /// Somebody has cancelled it.
    case cancelled

    public var description: String {
        switch self {
        case .cannotStart(let what): "The HTTP client can't start: \(what)."
        case .badRequest(let what): "The request can't be sent: \(what)."
        case .timedOut: "The server took too long."
        case .unreachable(let what): "The server can't be reached: \(what)."
        case .addressNotAllowed(let host): "\(host) has no public address, and is not among those that are allowed."
        case .insecure(let what): "The server can't be trusted: \(what)."
        case .tooManyRedirects: "The server redirects too often."
        case .responseTooLarge: "The response is too large."
        case .failed(let what): "The request failed: \(what)."
        case .notSent(let what), .refused(let what): "The request was not sent: \(what)."
        case .cancelled: "The request was cancelled."
        }
    }
}
