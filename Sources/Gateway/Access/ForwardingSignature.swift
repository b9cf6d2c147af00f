import Crypto
import Feeds
import HTTPServer
import Runtime
import Synchronization

/// The statement of a gateway that forwards a request to the gateway that runs its feed: the forwarding gateway has
/// authenticated the caller, and the caller may consume the feed of the request.
struct ForwardedCall: Sendable, Equatable {
    /// The name of the forwarding gateway; different at every start.
    let sender: String
    /// A number that increases with each request of the sender.
    let number: Int64
    /// The sending time, in seconds since 1970.
    let time: Int64
    /// The feed with this name that the caller may consume.
    let access: FeedAccess
    /// The caller's address.
    let client: String
    /// The consumer's connection that the request belongs to; nil for an independent request.
    var opening: FeedOpening?
}

/// Authenticates requests between gateways with the receiver's key, which only gateways can read. Pure.
///
/// The header `X-Pathmirror-Gateway` is `SENDER NUMBER TIME ACCESS CLIENT OPENING DIGEST CODE`: CLIENT is the caller's
/// address, OPENING the consumer's connection or `-`, DIGEST the body's SHA-256, and CODE the HMAC-SHA-256 of all other
/// fields with the method and the target.
struct ForwardingSignature: Sendable {
    static let header: StaticString = "x-pathmirror-gateway"
    /// Maximum difference in seconds between the sender's clock and the receiver's.
    static let toleranceSeconds: Int64 = 60

    private let key: Secret<[UInt8]>

    init(_ key: Secret<[UInt8]>) { self.key = key }

    /// Returns the header's value.
    func value(_ call: ForwardedCall, method: String, target: String, body: [UInt8]) -> String {
        let facts = Self.facts(call, digest: Hex.encode(Digest.sha256(body)))
        return "\(facts) \(code(facts, method: method, target: target))"
    }

    /// Returns the statement in a request's header, or nil if the header is missing, forged or out of date. Checks
    /// neither the body nor repetition: see `hasBody` and `ForwardingHistory`.
    func call(of head: HTTPRequest, now: Int64) -> ForwardedCall? {
        guard let bytes = head.header(Self.header), (1...400).contains(bytes.count) else { return nil }
        let parts = String(decoding: bytes, as: UTF8.self).split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 8, let number = Int64(parts[1]), let time = Int64(parts[2]),
            let access = FeedAccess(headerText: parts[3])
        else { return nil }
        let wanted = code(
            parts[..<7].joined(separator: " "), method: "\(head.method)",
            target: String(decoding: head.target, as: UTF8.self))
        guard Digest.isEqualInConstantTime(Array(wanted.utf8), Array(parts[7].utf8)),
            (now - Self.toleranceSeconds...now + Self.toleranceSeconds).contains(time)
        else { return nil }
        return ForwardedCall(
            sender: String(parts[0]), number: number, time: time, access: access,
            client: String(parts[4]), opening: FeedOpening(text: String(parts[5])))
    }

    /// Returns whether the body of a request with a genuine header has the signed digest.
    static func hasBody(_ request: HTTPRequest) -> Bool {
        let parts = (request.headerText(header) ?? "").split(separator: " ", omittingEmptySubsequences: false)
        return parts.count == 8 && parts[6] == Hex.encode(Digest.sha256(request.body))
    }

    private static func facts(_ call: ForwardedCall, digest: String) -> String {
        let opening = call.opening?.text ?? "-"
        return
            "\(call.sender) \(call.number) \(call.time) \(call.access.headerText) \(call.client) \(opening) \(digest)"
    }

    private func code(_ facts: String, method: String, target: String) -> String {
        let signed = "pathmirror forward 1\n\(facts)\n\(method)\n\(target)"
        return Hex.encode(HMAC.sha256(Array(signed.utf8), key: key.revealed()))
    }
}

extension FeedAccess {
    var headerText: String {
        switch self {
        case .any: "any"
        case .id(let id): "id:\(id)"
        case .since(let time): "since:\(time)"
        }
    }

    init?(headerText text: Substring) {
        let parts = text.split(separator: ":", maxSplits: 1)
        switch (parts.first, parts.count) {
        case ("any", 1): self = .any
        case ("id", 2): self = .id(String(parts[1]))
        case ("since", 2):
            guard let time = Int64(parts[1]) else { return nil }
            self = .since(time)
        default: return nil
        }
    }
}

/// Records forwarded requests, so that none is accepted twice. Bounded; a value without a clock.
struct ForwardingHistory: Sendable {
    /// The newest numbers of a sender, as bits.
    private struct Sender: Sendable {
        var newest: Int64 = 0
        var bits = [UInt64](repeating: 0, count: ForwardingHistory.window / 64)
        var seenAt: Int64

        mutating func take(_ number: Int64) -> Bool {
            guard number > 0, number > newest - Int64(ForwardingHistory.window) else { return false }
            if number > newest {
                // Numbers that leave the window clear their bits.
                let gone = min(number - newest, Int64(ForwardingHistory.window))
                if gone == Int64(ForwardingHistory.window) {
                    for index in bits.indices { bits[index] = 0 }
                } else {
                    for passed in (newest + 1)...number { bits[wordIndex(passed)] &= ~bit(passed) }
                }
                newest = number
            }
            defer { bits[wordIndex(number)] |= bit(number) }
            return bits[wordIndex(number)] & bit(number) == 0
        }

        private func wordIndex(_ number: Int64) -> Int { Int(number % Int64(ForwardingHistory.window)) / 64 }
        private func bit(_ number: Int64) -> UInt64 { 1 << UInt64(number % 64) }
    }

    /// Maximum number of concurrent requests of one sender, in any order. They take 8 kB per sender.
    static let window = 65_536
    /// Maximum number of senders. Requests of further senders are rejected.
    static let mostSenders = 256

    private var senders: [String: Sender] = [:]

    /// Returns whether a genuine request is new, and records it.
    ///
    /// - Parameter now: seconds since 1970.
    mutating func admits(_ call: ForwardedCall, now: Int64) -> Bool {
        if senders[call.sender] == nil {
            if senders.count >= Self.mostSenders {
                // Older requests of these senders would be rejected because of their time.
                senders = senders.filter { abs(now - $0.value.seenAt) <= 2 * ForwardingSignature.toleranceSeconds }
                guard senders.count < Self.mostSenders else { return false }
            }
            senders[call.sender] = Sender(seenAt: now)
        }
        senders[call.sender]?.seenAt = now
        return senders[call.sender]?.take(call.number) ?? false
    }
}

/// This gateway's identity towards other gateways, for forwarding and receiving requests. Shared by all loops; any
/// thread.
final class ForwardingIdentity: Sendable {
    /// Different at every start.
    private let name = String(UInt64.random(in: .min ... .max), radix: 16)
    private let lastNumber = Atomic<Int64>(0)
    private let history = Mutex(ForwardingHistory())

    /// Returns the header that authenticates a request to a gateway with this key.
    ///
    /// - Parameter now: milliseconds since 1970.
    func header(
        _ key: Secret<[UInt8]>, _ access: FeedAccess, client: String, opening: FeedOpening? = nil, method: String,
        target: String, body: [UInt8], now: Milliseconds = Clock.unixMilliseconds
    ) -> String {
        let call = ForwardedCall(
            sender: name, number: lastNumber.wrappingAdd(1, ordering: .relaxed).newValue, time: now / 1_000,
            access: access, client: client, opening: opening)
        return ForwardingSignature(key).value(call, method: method, target: target, body: body)
    }

    /// Returns the statement of the gateway that forwarded a request. Returns nil for an ordinary request, and for a
    /// request that is forged, changed, old or repeated. Call it once for each request.
    ///
    /// - Parameter key: this gateway's key, for the database of the request's namespace.
    func take(
        _ request: HTTPRequest, _ key: Secret<[UInt8]>, now: Milliseconds = Clock.unixMilliseconds
    ) -> ForwardedCall? {
        let now = now / 1_000
        guard let call = ForwardingSignature(key).call(of: request, now: now), ForwardingSignature.hasBody(request),
            history.withLock({ $0.admits(call, now: now) })
        else { return nil }
        return call
    }

    /// Returns the caller's address that the forwarding gateway reports, before the body has arrived; nil for an
    /// ordinary request.
    func client(of head: HTTPRequest, _ key: Secret<[UInt8]>, now: Milliseconds = Clock.unixMilliseconds) -> IPAddress?
    {
        ForwardingSignature(key).call(of: head, now: now / 1_000).flatMap { IPAddress($0.client) }
    }
}
