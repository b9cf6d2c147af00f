import LogStore
import Runtime
import Synchronization

/// Short messages between the gateways of one database, sent and received. The lease's thread sends them, and the tail
/// receives them; a message may be lost. Messages with an invalid signature, repeated messages and messages with a
/// wrong time are dropped.
final class PeerMailbox: Sendable {
    private struct State {
        /// Nil until the key was read.
        var signature: PeerSignature?
        var history = PeerHistory()
        var lastNumber: Int64 = 0
    }

    /// This gateway's name among the gateways; different after every start.
    let id = String(UInt64.random(in: .min ... .max), radix: 16)
    private let state = Mutex(State())
    private let handler = Mutex<(@Sendable (_ sender: String, _ text: String) -> Void)?>(nil)

    /// Sets the key that signs and verifies messages from now on; nil: none are sent or accepted.
    func use(_ signature: PeerSignature?) { state.withLock { $0.signature = signature } }

    /// Creates a message of this gateway to be sent now; numbers rise in the order of the calls. Returns nil if the
    /// text is too long, or no key is known.
    func message(_ text: String, at now: Milliseconds = Clock.unixMilliseconds) -> PeerMessage? {
        state.withLock { state in
            guard let signature = state.signature else { return nil }
            state.lastNumber += 1
            return signature.message(from: id, number: state.lastNumber, time: now, text)
        }
    }

    /// Sets the function that receives each message, without a lock; it must return soon.
    func onMessage(_ body: @escaping @Sendable (_ sender: String, _ text: String) -> Void) {
        handler.withLock { $0 = body }
    }

    /// Passes a message to the handler if it is genuine, new and not this gateway's own.
    func received(_ message: PeerMessage, at now: Milliseconds = Clock.unixMilliseconds) {
        guard message.sender != id else { return }
        let isAccepted = state.withLock { state in
            guard let signature = state.signature, signature.isGenuine(message) else { return false }
            return state.history.admits(message, at: now)
        }
        guard isAccepted else { return }
        handler.withLock { $0 }?(message.sender, message.text)
    }
}
