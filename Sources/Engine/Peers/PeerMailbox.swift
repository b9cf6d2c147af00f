import LogStore
import Synchronization

/// What other gateways tell this one.
final class PeerMailbox: Sendable {
    /// This gateway's name among them; different at every start.
    let id = String(UInt64.random(in: .min ... .max), radix: 16)
    private let handler = Mutex<(@Sendable (_ sender: String, _ text: String) -> Void)?>(nil)

    func onMessage(_ body: @escaping @Sendable (_ sender: String, _ text: String) -> Void) {
        handler.withLock { $0 = body }
    }

    /// Hands a message on, unless it is this gateway's own.
    func received(_ message: PeerMessage) {
        guard message.sender != id else { return }
        handler.withLock { $0 }?(message.sender, message.text)
    }
}
