package import Glibc

/// The byte stream of a connected, non-blocking socket: over plain TCP, or over TLS. Belongs to its loop's thread.
package struct SocketStream {
    package let descriptor: Int32
    private var tls: TLSSession?

    /// Takes ownership of the descriptor: call `close` exactly once.
    package init(descriptor: Int32, tls: TLSSession? = nil) {
        self.descriptor = descriptor
        self.tls = tls
    }

    package func receive(into buffer: UnsafeMutableRawBufferPointer) -> StreamOutcome {
        if let tls { return tls.receive(into: buffer) }
        let outcome = Self.attempt { recv(descriptor, buffer.baseAddress, buffer.count, 0) }
        return outcome == .moved(0) ? .finished : outcome
    }

    package func send(_ bytes: UnsafeRawBufferPointer) -> StreamOutcome {
        if let tls { return tls.send(bytes) }
        return Self.attempt { Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL)) }
    }

    /// Sends pieces as one stream.
    package func send(_ pieces: UnsafeMutableBufferPointer<iovec>) -> StreamOutcome {
        if let tls { return tls.send(pieces) }
        var message = msghdr()
        message.msg_iov = pieces.baseAddress
        message.msg_iovlen = pieces.count
        return Self.attempt { sendmsg(descriptor, &message, Int32(MSG_NOSIGNAL)) }
    }

    /// Repeats a system call that a signal interrupted.
    @inline(__always)
    private static func attempt(_ call: () -> Int) -> StreamOutcome {
        while true {
            let count = call()
            if count >= 0 { return .moved(count) }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            case let number: return .failed(number)
            }
        }
    }

    /// Ends the output; input can still be received. Returns false if TLS has to wait until the socket accepts output:
    /// call it again then.
    package func finishSending() -> Bool {
        if let tls, !tls.finishSending() { return false }
        _ = shutdown(descriptor, Int32(SHUT_WR))
        return true
    }

    /// Whether the connection broke after the peer's end of input, when receiving still returns `finished`.
    package var isBroken: Bool {
        var error: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0
    }

    package func close() {
        // If the close message can't be sent at once, it is omitted: the peer does not read.
        _ = tls?.finishSending()
        _ = Glibc.close(descriptor)
    }
}

// MARK: - TLS

extension SocketStream {
    package var isSecure: Bool { tls != nil }

    /// Whether bytes can be received or sent only after `shakeHands` has returned `done`.
    package var isHandshaking: Bool { tls?.isHandshaking ?? false }

    /// Continues the handshake as far as the socket permits.
    package func shakeHands() -> TLSSession.Handshake { tls?.shakeHands() ?? .done }

    /// The reason why the handshake failed. Nil before, and without TLS.
    package var failure: String? { tls?.failure }

    package var isResumed: Bool { tls?.isResumed ?? false }

    /// Whether there may be input although the socket has none.
    package var holdsInput: Bool { tls?.holdsInput ?? false }

    /// Bytes at the front of the unsent output that are already encrypted, and can't be dropped.
    package var committedBytes: Int { tls?.committedBytes ?? 0 }

    /// Ends the use of TLS: later output is plain text.
    package mutating func dropTLS() { tls = nil }
}

/// The outcome of one attempt to transfer bytes through a socket.
package enum StreamOutcome: Equatable {
    /// The number of transferred bytes (at least one).
    case moved(Int)
    /// No bytes can be transferred now: wait for the event.
    case wouldBlock
    /// The peer sends no more (only when receiving).
    case finished
    /// The connection has failed, with this `errno`.
    case failed(Int32)
}

/// A position in pieces of memory that are sent one after the other.
struct PieceCursor {
    private let pieces: UnsafeMutableBufferPointer<iovec>
    private var index = 0
    private var offset = 0

    init(_ pieces: UnsafeMutableBufferPointer<iovec>) {
        self.pieces = pieces
        skipEmpty()
    }

    var isAtEnd: Bool { index == pieces.count }

    /// Calls `body` with the next bytes in one piece: `most` of them, or all remaining ones. Copies only if they are in
    /// several pieces. The same position always gives the same bytes, or more.
    func withNext<R>(_ most: Int, _ body: (UnsafeRawBufferPointer) -> R) -> R {
        guard !isAtEnd else { return body(UnsafeRawBufferPointer(start: nil, count: 0)) }
        let first = rest(of: index, from: offset)
        if first.count >= most || index + 1 == pieces.count {
            return body(UnsafeRawBufferPointer(rebasing: first.prefix(most)))
        }
        return withUnsafeTemporaryAllocation(byteCount: most, alignment: 1) { buffer in
            var count = 0
            var start = offset
            for piece in index..<pieces.count where count < most {
                let source = rest(of: piece, from: start).prefix(most - count)
                start = 0
                UnsafeMutableRawBufferPointer(rebasing: buffer[count...]).copyMemory(
                    from: UnsafeRawBufferPointer(rebasing: source))
                count += source.count
            }
            return body(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer).prefix(count)))
        }
    }

    mutating func advance(by count: Int) {
        var left = count
        while left > 0, !isAtEnd {
            let here = pieces[index].iov_len - offset
            if left < here {
                offset += left
                return
            }
            left -= here
            index += 1
            offset = 0
        }
        skipEmpty()
    }

    private mutating func skipEmpty() {
        while index < pieces.count, pieces[index].iov_len == offset {
            index += 1
            offset = 0
        }
    }

    private func rest(of piece: Int, from offset: Int) -> UnsafeRawBufferPointer {
        let whole = UnsafeRawBufferPointer(start: pieces[piece].iov_base, count: pieces[piece].iov_len)
        return UnsafeRawBufferPointer(rebasing: whole[offset...])
    }
}
