internal import COpenSSL
package import Glibc

/// One side of one TLS connection over a non-blocking socket. Belongs to its loop's thread, which has SIGPIPE blocked
/// because the library itself writes to the socket.
package final class TLSSession {
    package enum Handshake {
        case done
        /// Call again when the socket has input, or accepts output.
        case needsInput, needsOutput
        /// The peer uses plain HTTP. The library has consumed the beginning of its request.
        case plainHTTP
        case failed
    }

    private static let recordBytes = 16 * 1024
    /// Maximum number of records that one call writes, so that other connections get their turn.
    private static let recordsAtOnce = 16

    private let ssl: OpaquePointer
    package private(set) var isHandshaking = true
    /// Whether there may be input that the library has already read from the socket.
    package private(set) var holdsInput = false
    /// Bytes at the front of the last call of `send` that are already encrypted, although `send` has not counted them.
    /// The next `send` must begin with the same bytes.
    package private(set) var committedBytes = 0
    /// After an error the library must not be called any more.
    private var isBroken = false

    /// Takes ownership of `ssl`.
    init(_ ssl: OpaquePointer) {
        self.ssl = ssl
    }

    deinit {
        SSL_free(ssl)
    }

    /// The reason why the handshake failed: the error of the peer's certificate, or the library's reason. Nil before.
    package private(set) var failure: String?

    /// Whether the client resumed a session with a ticket.
    package var isResumed: Bool { SSL_session_reused(ssl) == 1 }

    package func shakeHands() -> Handshake {
        ERR_clear_error()
        let result = SSL_do_handshake(ssl)
        if result == 1 {
            isHandshaking = false
            holdsInput = SSL_has_pending(ssl) == 1
            return .done
        }
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ: return .needsInput
        case SSL_ERROR_WANT_WRITE: return .needsOutput
        default:
            isBroken = true
            let reason = ERR_GET_REASON(ERR_peek_error())
            let verdict = SSL_get_verify_result(ssl)
            failure =
                verdict == Int(X509_V_OK)
                ? TLSError.takeReason() : String(cString: X509_verify_cert_error_string(verdict))
            ERR_clear_error()
            return reason == SSL_R_HTTP_REQUEST ? .plainHTTP : .failed
        }
    }

    // MARK: Input

    package func receive(into buffer: UnsafeMutableRawBufferPointer) -> StreamOutcome {
        guard !isBroken else { return .failed(EPROTO) }
        var total = 0
        while total < buffer.count {
            ERR_clear_error()
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[total...])
            let count = SSL_read(ssl, rest.baseAddress, Int32(clamping: rest.count))
            if count > 0 {
                total += Int(count)
                holdsInput = SSL_has_pending(ssl) == 1
                if !holdsInput { break }
                continue
            }
            let outcome = outcome(of: count)
            // After part of a record, the socket reports when the rest has arrived. After the end, the next call
            // returns it, because the socket may report no further event.
            holdsInput = outcome != .wouldBlock && total > 0
            if total == 0 { return outcome }
            break
        }
        return .moved(total)
    }

    // MARK: Output

    package func send(_ bytes: UnsafeRawBufferPointer) -> StreamOutcome {
        var sent = 0
        for _ in 0..<Self.recordsAtOnce where sent < bytes.count {
            let end = min(bytes.count, sent + Self.recordBytes)
            switch write(UnsafeRawBufferPointer(rebasing: bytes[sent..<end])) {
            case .moved(let count): sent += count
            case .wouldBlock: return sent > 0 ? .moved(sent) : .wouldBlock
            // Bytes that were sent before are irrelevant after an error.
            case let end: return end
            }
        }
        return .moved(sent)
    }

    /// Sends pieces as one stream: small ones are combined in a record.
    package func send(_ pieces: UnsafeMutableBufferPointer<iovec>) -> StreamOutcome {
        var cursor = PieceCursor(pieces)
        var sent = 0
        for _ in 0..<Self.recordsAtOnce where !cursor.isAtEnd {
            let outcome = cursor.withNext(Self.recordBytes) { write($0) }
            switch outcome {
            case .moved(let count):
                cursor.advance(by: count)
                sent += count
            case .wouldBlock: return sent > 0 ? .moved(sent) : .wouldBlock
            case let end: return end
            }
        }
        return .moved(sent)
    }

    /// Writes at most one record. After `wouldBlock` the caller must pass the same bytes again, at any address,
    /// optionally followed by more.
    private func write(_ bytes: UnsafeRawBufferPointer) -> StreamOutcome {
        guard !isBroken else { return .failed(EPROTO) }
        guard bytes.count > 0 else { return .moved(0) }
        ERR_clear_error()
        let count = SSL_write(ssl, bytes.baseAddress, Int32(clamping: bytes.count))
        if count > 0 {
            committedBytes = 0
            return .moved(Int(count))
        }
        let outcome = outcome(of: count)
        if outcome == .wouldBlock { committedBytes = max(committedBytes, bytes.count) }
        return outcome
    }

    private func outcome(of result: Int32) -> StreamOutcome {
        let error = errno
        switch SSL_get_error(ssl, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return .wouldBlock
        case SSL_ERROR_ZERO_RETURN: return .finished
        case SSL_ERROR_SYSCALL:
            isBroken = true
            ERR_clear_error()
            return .failed(error)
        default:
            // This case includes an end without a close message: an attacker may have cut the connection.
            isBroken = true
            ERR_clear_error()
            return .failed(EPROTO)
        }
    }

    // MARK: Closing

    /// Sends the close message. Returns false if the socket accepts no output at the moment: call it again.
    package func finishSending() -> Bool {
        guard !isBroken, !isHandshaking else { return true }
        ERR_clear_error()
        let result = SSL_shutdown(ssl)
        guard result < 0 else { return true }
        let isWaiting = SSL_get_error(ssl, result) == SSL_ERROR_WANT_WRITE
        if !isWaiting { isBroken = true }
        ERR_clear_error()
        return !isWaiting
    }

    /// Returns whether a session of another library, which uses OpenSSL itself, has received bytes that its owner has
    /// not read.
    ///
    /// - Parameter session: an `SSL *` that stays valid during the call.
    package static func hasBufferedBytes(ofForeign session: UnsafeMutableRawPointer) -> Bool {
        SSL_has_pending(OpaquePointer(session)) != 0
    }
}
