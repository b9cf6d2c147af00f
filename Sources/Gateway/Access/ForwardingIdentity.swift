import Feeds
import HTTPServer
import Runtime
import Synchronization

/// What a gateway is to the others that forward requests to it, and to which it forwards some. Shared by all loops; any thread.
final class ForwardingIdentity: Sendable {
    /// Different at every start.
    private let name = String(UInt64.random(in: .min ... .max), radix: 16)
    private let lastNumber = Atomic<Int64>(0)
    private let history = Mutex(ForwardingHistory())

    /// The header that vouches for a request to a gateway with this key.
    ///
    /// - Parameter now: milliseconds since 1970.
    func header(
        _ key: Secret<[UInt8]>, _ access: FeedAccess, client: String, opening: FeedOpening? = nil, method: String,
        target: String, body: [UInt8], now: Milliseconds = Clock.unixMilliseconds
    ) -> String {
        let call = ForwardedCall(
            sender: name, number: lastNumber.wrappingAdd(1, ordering: .relaxed).newValue, time: now / 1_000,
            access: access, client: client, opening: opening)
        return ForwardingSeal(key).value(call, method: method, target: target, body: body)
    }

    /// What another gateway vouches for; nil for an ordinary request, and for one that is forged, changed, old or repeated. To be asked once
    /// for each request.
    ///
    /// - Parameter key: this gateway's, for the database of the request's namespace.
    func take(
        _ request: HTTPRequest, _ key: Secret<[UInt8]>, now: Milliseconds = Clock.unixMilliseconds
    ) -> ForwardedCall? {
        let now = now / 1_000
        guard let call = ForwardingSeal(key).call(of: request, now: now), ForwardingSeal.hasBody(request),
            history.withLock({ $0.admits(call, now: now) })
        else { return nil }
        return call
    }

    /// The caller's address that another gateway vouches for in a request whose body has not come yet; nil for an ordinary request.
    func client(of head: HTTPRequest, _ key: Secret<[UInt8]>, now: Milliseconds = Clock.unixMilliseconds) -> IPAddress?
    {
        ForwardingSeal(key).call(of: head, now: now / 1_000).flatMap { IPAddress($0.client) }
    }
}
