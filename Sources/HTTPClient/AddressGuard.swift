internal import CCurl
internal import Runtime

/// Decides which addresses a transfer may connect to, by its redirects up to now. Belongs to the client's thread, as the transfer does.
final class AddressGuard {
    private let policy: AddressPolicy
    /// Where the transfer is going now.
    private var url: ClientURL?
    /// Some server on the internet has had the request, and has sent it on.
    private var comesFromOutside = false
    private var lastVerdict = AddressPolicy.Verdict.excepted
    /// Some address was let through.
    private var isConnecting = false
    private var refusal: HTTPClientError?

    init(_ policy: AddressPolicy) { self.policy = policy }

    /// A request to `url` is next.
    func begin(_ url: ClientURL?) {
        if lastVerdict == .outside { comesFromOutside = true }
        self.url = url
        isConnecting = false
        refusal = nil
    }

    /// Why libcurl was told not to go on, where that is what ended the request.
    func refusal(for code: CURLcode) -> HTTPClientError? {
        code == CURLE_ABORTED_BY_CALLBACK || !isConnecting ? refusal : nil
    }

    /// Whether the transfer may connect to an address, as far as it has come.
    func mayReach(_ address: IPAddress?) -> Bool {
        lastVerdict = policy.verdict(on: address, of: url, comesFromOutside: comesFromOutside)
        switch lastVerdict {
        case .outside, .excepted: return true
        case .refused: refusal = .addressNotAllowed(host: url.map { String($0.host.prefix(253)) } ?? "The server")
        case .needsTLS: refusal = .insecure("plain HTTP is only for addresses that are allowed by name")
        }
        return false
    }

    /// Whether the transfer may open a socket to an address.
    func mayConnect(_ address: IPAddress?) -> Bool {
        guard mayReach(address) else { return false }
        isConnecting = true
        return true
    }
}
