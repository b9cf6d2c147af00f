import HTTPServer

/// Requests that wait: for a seq to be applied, a body to be parsed, a write to be committed. Belongs to its loop's thread.
final class WaitingCalls {
    private var calls: [UInt64: Call] = [:]

    var count: Int { calls.count }

    /// Keeps the request until `resume`; forgets it when the client goes away.
    func suspend(_ call: Call) {
        let id = call.exchange.id
        calls[id] = call
        // Ends with the exchange, and so keeps nothing for longer.
        call.exchange.onClose = { [self] in _ = resume(id) }
    }

    /// The waiting request, which then waits no more; nil when its client is gone.
    func resume(_ id: UInt64) -> Call? {
        guard let call = calls.removeValue(forKey: id) else { return nil }
        call.timer?.cancel()
        call.timer = nil
        return call
    }
}
