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
