import TLS

/// The beginning of a connection over TLS.
extension Connection {
    /// Goes on with the handshake; then with what came behind it.
    func shakeHands() {
        switch transport.shakeHands() {
        case .needsInput: disarmWrite()
        case .needsOutput: armWrite()
        case .done:
            disarmWrite()
            service.counters.handshakes.bump()
            if transport.isResumed { service.counters.resumedHandshakes.bump() }
            begin()
            if transport.holdsInput, !isDead { readable() }
        case .plainHTTP:
            handshakeFailed()
            reply(400, "This port speaks HTTPS. Use https:// in the address.")
        case .failed:
            // The library has told the peer why.
            handshakeFailed()
            endAfterFlush(lingers: true)
        }
    }

    /// Waits for the first request, or refuses the connection.
    func begin() {
        if let refusal {
            reply(refusal.status, refusal.text, retryAfterSeconds: 1)
        } else {
            arm(afterMilliseconds: service.settings.idleTimeoutMilliseconds)
        }
    }

    private func handshakeFailed() {
        disarmWrite()
        service.counters.failedHandshakes.bump()
        transport.dropTLS()
    }
}
