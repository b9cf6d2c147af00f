import LogStore
import Synchronization

/// Short messages between the gateways of one database: what this one sends, and what it is told. The lease's thread sends
/// them, and the tail receives them; a message may be lost.
final class PeerMailbox: Sendable {
    /// This gateway's name among them; different at every start.
    let id = String(UInt64.random(in: .min ... .max), radix: 16)
    private let handler = Mutex<(@Sendable (_ sender: String, _ text: String) -> Void)?>(nil)

    /// A message of this gateway's; nil where it is too long.
    func message(_ text: String) -> PeerMessage? { PeerMessage(sender: id, text: text) }

    /// Calls back with each message, without a lock; must return soon.
    func onMessage(_ body: @escaping @Sendable (_ sender: String, _ text: String) -> Void) {
        handler.withLock { $0 = body }
    }

    /// Hands a message on, unless it is this gateway's own.
    func received(_ message: PeerMessage) {
        guard message.sender != id else { return }
        handler.withLock { $0 }?(message.sender, message.text)
    }
}
