import Runtime

/// Tells for how long something has been going on that can't say how far it is: one statement of the database, a server
/// that does not answer. A thread of its own tells it, as whoever works is busy.
final class ElapsedLine: Sendable {
    private struct State {
        var text: String
        var isEnded = false
    }

    private let state: Condition<State>
    private let thread: Thread?

    /// - Parameters:
    ///   - text: what goes on, such as `shop: removing 3 rows`.
    ///   - patience: only what takes longer is told of.
    ///   - beat: how often the line is looked at.
    init(
        _ console: Console, _ text: String, isQuiet: Bool, patience: Milliseconds = 2_000, beat: Milliseconds = 500
    ) {
        let state = Condition(State(text: text))
        self.state = state
        guard !isQuiet else {
            thread = nil
            return
        }
        thread = Thread(name: "elapsed", isVital: false) {
            let start = Clock.monotonicMilliseconds
            var line = ProgressLine(console, isQuiet: false, .system)
            while state.wait(milliseconds: beat, until: { $0.isEnded ? true : nil }) == nil {
                let elapsed = Clock.monotonicMilliseconds - start
                guard elapsed >= patience, line.isDue() else { continue }
                line.show("\(state.withLock { $0.text }), \(ProgressLine.span(seconds: Int(elapsed / 1_000)))")
            }
            line.end()
        }
    }

    /// Says what goes on now.
    func note(_ text: String) { state.withLock { $0.text = text } }

    /// Clears the line. Nothing is told once this has returned.
    func end() {
        guard
            state.broadcast({ state in
                defer { state.isEnded = true }
                return !state.isEnded
            })
        else { return }
        if let thread, thread.isStarted { thread.join() }
    }

    deinit { end() }
}

extension Console {
    /// Runs `body`, and tells for how long it has been running where that is long.
    func telling<Result>(
        _ text: String, isQuiet: Bool, patience: Milliseconds = 2_000, beat: Milliseconds = 500,
        _ body: (ElapsedLine) throws -> Result
    ) rethrows -> Result {
        let line = ElapsedLine(self, text, isQuiet: isQuiet, patience: patience, beat: beat)
        defer { line.end() }
        return try body(line)
    }
}
