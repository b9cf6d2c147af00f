import Runtime

/// What happens when nothing happens.
extension Connection {
    /// Acts in that many milliseconds unless the deadline is moved. Later deadlines cost one store.
    @inline(__always)
    func arm(afterMilliseconds delay: Milliseconds) {
        deadlineMilliseconds = service.nowMilliseconds + delay
        if wheelTick == .max || service.wheel.tick(of: deadlineMilliseconds) < wheelTick { file() }
    }

    private func file() {
        wheelTick = service.wheel.file(id, deadlineMilliseconds: deadlineMilliseconds)
    }

    /// The wheel's tick for this connection has come.
    func wheelTurned(tick: Int, nowMilliseconds: Milliseconds) {
        // An entry left behind by a deadline that was moved forward.
        guard tick == wheelTick, !isDead else { return }
        wheelTick = .max
        if deadlineMilliseconds == .max { return }
        if deadlineMilliseconds > nowMilliseconds { return file() }
        expired(nowMilliseconds)
    }

    private func expired(_ nowMilliseconds: Milliseconds) {
        if phase == .receiving, output.isEmpty, let parser, let since = stageSinceMilliseconds {
            if parser.isHeadComplete {
                let settings = service.settings
                let earned = parser.body.count * 1000 / settings.minBodyBytesPerSecond
                deadlineMilliseconds = since + settings.bodyTimeoutMilliseconds + Milliseconds(earned)
                if deadlineMilliseconds > nowMilliseconds { return file() }
            }
            service.counters.timeouts.bump()
            deadlineMilliseconds = .max
            return reply(408, "The request did not arrive in time.")
        }
        // Idle, unread output, or the end of lingering: nobody is there to be told.
        if phase != .lingering { service.counters.timeouts.bump() }
        die()
    }
}
