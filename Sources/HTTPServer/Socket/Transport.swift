import CEvent
import Glibc
import TLS

/// How bytes reach a peer: over plain TCP, or over TLS.
struct Transport {
    let descriptor: Int32
    private var tls: TLSSession?

    init(descriptor: Int32, tls: TLSSession? = nil) {
        self.descriptor = descriptor
        self.tls = tls
    }

    func receive(into buffer: UnsafeMutableRawBufferPointer) -> StreamOutcome {
        if let tls { return tls.receive(into: buffer) }
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

    func send(_ bytes: UnsafeRawBufferPointer) -> StreamOutcome {
        if let tls { return tls.send(bytes) }
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

    func send(_ pieces: UnsafeMutableBufferPointer<iovec>) -> StreamOutcome {
        if let tls { return tls.send(pieces) }
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

    /// Tells the peer that nothing more comes; its own bytes can still be received. False where that can't be said
    /// before the socket takes output again.
    func finishSending() -> Bool {
        if let tls, !tls.finishSending() { return false }
        _ = pathmirror_finish_sending(descriptor)
        return true
    }

    /// Whether the connection broke behind the peer's end of input, where receiving goes on to say "finished".
    var isBroken: Bool { pathmirror_pending_error(descriptor) != 0 }

    func close() {
        // Where it does not go at once, nobody reads.
        _ = tls?.finishSending()
        _ = Glibc.close(descriptor)
    }
}

// MARK: - TLS

extension Transport {
    var isSecure: Bool { tls != nil }

    /// Whether nothing can be received or sent before `shakeHands` says that it is done.
    var isHandshaking: Bool { tls?.isHandshaking ?? false }

    /// Goes on with the handshake as far as the socket lets it.
    func shakeHands() -> TLSSession.Handshake { tls?.shakeHands() ?? .done }

    var isResumed: Bool { tls?.isResumed ?? false }

    /// Whether there may be input although the socket has none.
    var holdsInput: Bool { tls?.holdsInput ?? false }

    /// Bytes at the front of what could not be sent that are on their way nevertheless, and can't be taken back.
    var committedBytes: Int { tls?.committedBytes ?? 0 }

    /// From now on the peer is spoken to in plain text.
    mutating func dropTLS() { tls = nil }
}
