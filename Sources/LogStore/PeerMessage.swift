import Crypto
import Postgres
public import Runtime

/// A message from one gateway to the others of its database, as it is on the channel. Every role that can connect can send one:
/// `PeerSeal` says whether it is genuine.
public struct PeerMessage: Sendable, Equatable {
    public let sender: String
    /// Rises from one message of the sender to the next.
    public let number: Int64
    /// When it was sealed, in milliseconds since 1970.
    public let time: Int64
    public let text: String
    /// Hexadecimal digits that only holders of the key can make.
    let code: String

    /// Nil when it is longer than PostgreSQL carries (8,000 bytes).
    init?(sender: String, number: Int64, time: Int64, text: String, code: String) {
        self.sender = sender
        self.number = number
        self.time = time
        self.text = text
        self.code = code
        guard payload.utf8.count < 8_000 else { return nil }
    }

    /// Reads `SENDER NUMBER TIME CODE TEXT`.
    public init?(payload: String) {
        let parts = payload.split(separator: " ", maxSplits: 4, omittingEmptySubsequences: false)
        guard parts.count == 5, (1...64).contains(parts[0].utf8.count), let number = Int64(parts[1]),
            let time = Int64(parts[2])
        else { return nil }
        self.init(
            sender: String(parts[0]), number: number, time: time, text: String(parts[4]), code: String(parts[3]))
    }

    var payload: String { "\(sender) \(number) \(time) \(code) \(text)" }
}

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

extension LogConnection {
    static let peerChannel = "pathmirror_peer"

    /// Sends a message to all gateways that listen, this one among them: each hears it at most once, and the messages of one connection in
    /// their order.
    public func tellPeers(_ message: PeerMessage) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute("select pg_notify($1, $2)", [.text(Self.peerChannel), .text(message.payload)])
        }
    }

    /// Reads the key that authenticates messages between the gateways of this database; nil if this role may not read the key.
    public func peerSeal() throws(LogStoreError) -> PeerSeal? {
        try translated { () throws(PostgresError) -> PeerSeal? in
            // PostgreSQL checks the privileges of all tables of a statement before it evaluates any part of the statement: the question has to
            // be a statement of its own.
            let privilege = try postgres.execute(
                """
                select case when has_schema_privilege('pathmirror', 'usage')
                    then has_table_privilege('pathmirror.gateway_key', 'select') else false end
                """)
            guard try privilege.bool(0, 0) else { return nil }
            let rows = try postgres.execute("select key from pathmirror.gateway_key")
            return rows.rowCount == 0 ? nil : PeerSeal(Secret(try rows.bytes(0, 0)))
        }
    }
}
