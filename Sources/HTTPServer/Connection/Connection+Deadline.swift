/// What happens when nothing happens.
extension Connection {
    /// Acts in that many milliseconds unless the deadline is moved. Later deadlines cost one store.
    @inline(__always)
    func arm(afterMs delay: Int) {
        deadlineMs = service.nowMs + delay
        if wheelTick == .max || service.wheel.tick(of: deadlineMs) < wheelTick { file() }
    }

    private func file() {
        wheelTick = service.wheel.file(id, deadlineMs: deadlineMs)
    }

    /// The wheel's tick for this connection has come.
    func wheelTurned(tick: Int, nowMs: Int) {
        // An entry left behind by a deadline that was moved forward.
        guard tick == wheelTick, !isDead else { return }
        wheelTick = .max
        if deadlineMs == .max { return }
        if deadlineMs > nowMs { return file() }
        expired(nowMs)
    }

    private func expired(_ nowMs: Int) {
        if phase == .receiving, output.isEmpty, let parser, let since = stageSinceMs {
            if parser.isHeadComplete {
                let settings = service.settings
                let earned = parser.body.count * 1000 / settings.minBodyBytesPerSecond
                deadlineMs = since + settings.bodyTimeoutMs + earned
                if deadlineMs > nowMs { return file() }
            }
            service.counters.timeouts.bump()
            deadlineMs = .max
            return reply(408, "The request did not arrive in time.")
        }
        // Idle, unread output, or the end of lingering: nobody is there to be told.
        if phase != .lingering { service.counters.timeouts.bump() }
        die()
    }
}
