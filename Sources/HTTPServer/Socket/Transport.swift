import CEvent
import Glibc

/// How bytes reach a peer. Plain TCP now; TLS becomes a second way inside these functions, and nothing outside changes.
struct Transport {
    /// What one attempt to move bytes came to.
    enum Outcome: Equatable {
        /// So many bytes were moved (at least one).
        case moved(Int)
        /// Nothing can be moved now: wait for the event.
        case wouldBlock
        /// The peer sends no more (only when receiving).
        case finished
        /// The connection is gone.
        case failed(Int32)
    }

    let descriptor: Int32

    func receive(into buffer: UnsafeMutableRawBufferPointer) -> Outcome {
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if count > 0 { return .moved(count) }
            if count == 0 { return .finished }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            case let number: return .failed(number)
            }
        }
    }

    func send(_ bytes: UnsafeRawBufferPointer) -> Outcome {
        while true {
            let count = pathmirror_send(descriptor, bytes.baseAddress, bytes.count)
            if count >= 0 { return .moved(count) }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            case let number: return .failed(number)
            }
        }
    }

    func send(_ pieces: UnsafeMutableBufferPointer<iovec>) -> Outcome {
        while true {
            let count = pathmirror_send_pieces(descriptor, pieces.baseAddress, pieces.count)
            if count >= 0 { return .moved(count) }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            case let number: return .failed(number)
            }
        }
    }

    /// Tells the peer that nothing more comes; its own bytes can still be received.
    func finishSending() {
        _ = pathmirror_finish_sending(descriptor)
    }

    /// Whether the connection broke behind the peer's end of input, where receiving goes on to say "finished".
    var isBroken: Bool { pathmirror_pending_error(descriptor) != 0 }

    func close() {
        _ = Glibc.close(descriptor)
    }
}
