import Crypto
import Postgres
public import Runtime

/// A message from one gateway to the others of its database, as sent on the channel. Every role that can connect can
/// send one: `PeerSignature` checks whether it is genuine.
public struct PeerMessage: Sendable, Equatable {
    public let sender: String
    /// Increases with each message of the sender.
    public let number: Int64
    /// The time of signing, in milliseconds since 1970.
    public let time: Int64
    public let text: String
    /// The signature as hexadecimal digits. Only holders of the key can compute it.
    let code: String

    /// Returns nil if the payload is longer than PostgreSQL's limit (8,000 bytes).
    init?(sender: String, number: Int64, time: Int64, text: String, code: String) {
        self.sender = sender
        self.number = number
        self.time = time
        self.text = text
        self.code = code
        guard payload.utf8.count < 8_000 else { return nil }
    }

    /// Parses `SENDER NUMBER TIME CODE TEXT`.
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

/// Signs and checks messages between gateways with a key that only the gateways of a database can read. Pure.
public struct PeerSignature: Sendable {
    private let key: Secret<[UInt8]>

    public init(_ key: Secret<[UInt8]>) { self.key = key }

    /// Returns a signed message, or nil if it is too long.
    ///
    /// - Parameters:
    ///   - number: increases with each message of the sender.
    ///   - time: milliseconds since 1970.
    public func message(from sender: String, number: Int64, time: Int64, _ text: String) -> PeerMessage? {
        PeerMessage(
            sender: sender, number: number, time: time, text: text,
            code: code(sender: sender, number: number, time: time, text))
    }

    /// Whether a holder of the key has signed the message. It may be an old message that was replayed: see
    /// `PeerHistory`.
    public func isGenuine(_ message: PeerMessage) -> Bool {
        let wanted = code(sender: message.sender, number: message.number, time: message.time, message.text)
        return Digest.isEqualInConstantTime(Array(wanted.utf8), Array(message.code.utf8))
    }

    private func code(sender: String, number: Int64, time: Int64, _ text: String) -> String {
        let signed = "pathmirror peer 1\n\(sender)\n\(number)\n\(time)\n\(text)"
        return Hex.encode(HMAC.sha256(Array(signed.utf8), key: key.revealed()).prefix(16))
    }
}

/// The received messages of other gateways, so that none is accepted twice. Bounded; a value without a clock.
public struct PeerHistory: Sendable {
    private struct Sender {
        var number: Int64
        var seenAt: Int64
    }

    /// The maximum difference between a message's time and the receiver's, in milliseconds.
    public static let toleranceMilliseconds: Int64 = 60_000
    /// The maximum number of senders. Messages of further senders are rejected.
    static let mostSenders = 1_024

    private var senders: [String: Sender] = [:]

    public init() {}

    /// Whether a genuine message is new, and records it. Messages that arrive after a later message of their sender are
    /// rejected as well.
    ///
    /// - Parameter now: milliseconds since 1970.
    public mutating func admits(_ message: PeerMessage, at now: Int64) -> Bool {
        guard abs(message.time - now) <= Self.toleranceMilliseconds else { return false }
        if let known = senders[message.sender] {
            guard message.number > known.number else { return false }
        } else if senders.count >= Self.mostSenders {
            // Older messages of senders that are removed here are rejected because of their time.
            senders = senders.filter { abs(now - $0.value.seenAt) <= 2 * Self.toleranceMilliseconds }
            guard senders.count < Self.mostSenders else { return false }
        }
        senders[message.sender] = Sender(number: message.number, seenAt: now)
        return true
    }
}

extension LogConnection {
    static let peerChannel = "pathmirror_peer"

    /// Sends a message to all listening gateways, including this one. Each receives it at most once, and receives the
    /// messages of one connection in order.
    public func notifyPeers(_ message: PeerMessage) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute("select pg_notify($1, $2)", [.text(Self.peerChannel), .text(message.payload)])
        }
    }

    /// Reads the key that signs messages between the gateways of this database. Returns nil if this role may not read
    /// it.
    public func peerSignature() throws(LogStoreError) -> PeerSignature? {
        try translated { () throws(PostgresError) -> PeerSignature? in
            // This is a separate statement, because PostgreSQL checks the privileges on all tables of a statement
            // before it evaluates any part of the statement.
            let privilege = try postgres.execute(
                """
                select case when has_schema_privilege('pathmirror', 'usage')
                    then has_table_privilege('pathmirror.gateway_key', 'select') else false end
                """)
            guard try privilege.bool(0, 0) else { return nil }
            let rows = try postgres.execute("select key from pathmirror.gateway_key")
            return rows.rowCount == 0 ? nil : PeerSignature(Secret(try rows.bytes(0, 0)))
        }
    }
}
