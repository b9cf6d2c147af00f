import Crypto
import Feeds
import HTTPServer
import Runtime
import Synchronization

/// What a gateway vouches for when it forwards a request to the gateway that works its feed: it has authenticated the caller, and found
/// that the caller may consume the feed that the request names.
struct ForwardedCall: Sendable, Equatable {
    /// Which gateway forwards it; different at every start.
    let sender: String
    /// Rises from one request of the sender to the next.
    let number: Int64
    /// When it was sent, in seconds since 1970.
    let time: Int64
    /// Which feed of the name the caller may consume.
    let access: FeedAccess
    /// The caller's address.
    let client: String
    /// The connection of the consumer that the request belongs to; nil for a request that stands for itself.
    var opening: FeedOpening?
}

/// Authenticates requests between gateways by the receiver's key, which only gateways can read. Pure.
///
/// The header `X-Pathmirror-Gateway` is `SENDER NUMBER TIME ACCESS CLIENT OPENING DIGEST CODE`: CLIENT is the caller's address, OPENING
/// the consumer's connection or `-`, DIGEST the body's SHA-256, and CODE the HMAC-SHA-256 of all of it with the method and the target.
struct ForwardingSeal: Sendable {
    static let header: StaticString = "x-pathmirror-gateway"
    /// By how many seconds the sender's clock and the receiver's may differ.
    static let toleranceSeconds: Int64 = 60

    private let key: Secret<[UInt8]>

    init(_ key: Secret<[UInt8]>) { self.key = key }

    /// The header's value.
    func value(_ call: ForwardedCall, method: String, target: String, body: [UInt8]) -> String {
        let facts = Self.facts(call, digest: Hex.encode(Digest.sha256(body)))
        return "\(facts) \(code(facts, method: method, target: target))"
    }

    /// What a request's header vouches for; nil where it has none that is genuine and of this time. Neither its body is looked at, nor
    /// whether it came before: see `hasBody` and `ForwardingHistory`.
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

    /// Whether a request whose header is genuine has the body that was vouched for.
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

/// Which forwarded requests were received, so that none is accepted twice. Bounded; a value without a clock.
struct ForwardingHistory: Sendable {
    /// The newest numbers of a sender, as bits.
    private struct Sender: Sendable {
        var newest: Int64 = 0
        var bits = [UInt64](repeating: 0, count: ForwardingHistory.window / 64)
        var seenAt: Int64

        mutating func take(_ number: Int64) -> Bool {
            guard number > 0, number > newest - Int64(ForwardingHistory.window) else { return false }
            if number > newest {
                // What leaves the window makes room.
                let gone = min(number - newest, Int64(ForwardingHistory.window))
                if gone == Int64(ForwardingHistory.window) {
                    for index in bits.indices { bits[index] = 0 }
                } else {
                    for passed in (newest + 1)...number { bits[place(passed)] &= ~bit(passed) }
                }
                newest = number
            }
            defer { bits[place(number)] |= bit(number) }
            return bits[place(number)] & bit(number) == 0
        }

        private func place(_ number: Int64) -> Int { Int(number % Int64(ForwardingHistory.window)) / 64 }
        private func bit(_ number: Int64) -> UInt64 { 1 << UInt64(number % 64) }
    }

    /// So many requests of a sender may be under way at once, in any order: 8 kB each sender.
    static let window = 65_536
    /// Of more senders at once the requests are refused.
    static let mostSenders = 256

    private var senders: [String: Sender] = [:]

    /// Whether a genuine request is new.
    ///
    /// - Parameter now: seconds since 1970.
    mutating func admits(_ call: ForwardedCall, now: Int64) -> Bool {
        if senders[call.sender] == nil {
            if senders.count >= Self.mostSenders {
                // Requests of senders that have been silent for longer are refused for their time.
                senders = senders.filter { abs(now - $0.value.seenAt) <= 2 * ForwardingSeal.toleranceSeconds }
                guard senders.count < Self.mostSenders else { return false }
            }
            senders[call.sender] = Sender(seenAt: now)
        }
        senders[call.sender]?.seenAt = now
        return senders[call.sender]?.take(call.number) ?? false
    }
}

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
