import Crypto
public import Runtime

/// Authenticates messages between gateways by a key that only the gateways of a database can read. Pure.
public struct PeerSeal: Sendable {
    private let key: Secret<[UInt8]>

    public init(_ key: Secret<[UInt8]>) { self.key = key }

    /// A message that other holders of the key take for genuine; nil when it is too long.
    ///
    /// - Parameters:
    ///   - number: rises from one message of the sender to the next.
    ///   - time: milliseconds since 1970.
    public func message(from sender: String, number: Int64, time: Int64, _ text: String) -> PeerMessage? {
        PeerMessage(
            sender: sender, number: number, time: time, text: text,
            code: code(sender: sender, number: number, time: time, text))
    }

    /// Whether a holder of the key has made the message. It may be an old one that somebody repeats: see `PeerHistory`.
    public func isGenuine(_ message: PeerMessage) -> Bool {
        let wanted = code(sender: message.sender, number: message.number, time: message.time, message.text)
        return Digest.isEqualInConstantTime(Array(wanted.utf8), Array(message.code.utf8))
    }

    private func code(sender: String, number: Int64, time: Int64, _ text: String) -> String {
        let signed = "pathmirror peer 1\n\(sender)\n\(number)\n\(time)\n\(text)"
        return Hex.encode(HMAC.sha256(Array(signed.utf8), key: key.revealed()).prefix(16))
    }
}

/// Which messages of other gateways were received, so that none is accepted twice. Bounded; a value without a clock.
public struct PeerHistory: Sendable {
    private struct Sender {
        var number: Int64
        var seenAt: Int64
    }

    /// By how many milliseconds a message's time and the receiver's may differ.
    public static let toleranceMilliseconds: Int64 = 60_000
    /// Of more senders at once the messages are refused.
    static let mostSenders = 1_024

    private var senders: [String: Sender] = [:]

    public init() {}

    /// Whether a genuine message is new. Messages that come after a later one of their sender are refused, too.
    ///
    /// - Parameter now: milliseconds since 1970.
    public mutating func admits(_ message: PeerMessage, at now: Int64) -> Bool {
        guard abs(message.time - now) <= Self.toleranceMilliseconds else { return false }
        if let known = senders[message.sender] {
            guard message.number > known.number else { return false }
        } else if senders.count >= Self.mostSenders {
            // Messages of senders that have been silent for longer are refused for their time.
            senders = senders.filter { abs(now - $0.value.seenAt) <= 2 * Self.toleranceMilliseconds }
            guard senders.count < Self.mostSenders else { return false }
        }
        senders[message.sender] = Sender(number: message.number, seenAt: now)
        return true
    }
}
