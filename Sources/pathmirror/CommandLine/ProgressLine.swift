import Glibc
import Mirrors
import Runtime

/// A clock for code that measures time and waits.
struct ProgressClock {
    /// Milliseconds that never step back.
    let now: () -> Milliseconds
    /// Waits for this number of milliseconds.
    let pause: (Milliseconds) -> Void

    static var system: ProgressClock {
        ProgressClock(now: { Clock.monotonicMilliseconds }, pause: { usleep(UInt32($0) * 1_000) })
    }
}

/// A progress line: one line that is rewritten on a terminal, and an occasional line elsewhere.
struct ProgressLine {
    let isTerminal: Bool
    private let console: Console
    private let isQuiet: Bool
    private let clock: ProgressClock
    private let start: Int64
    private var last: Int64 = 0

    init(_ console: Console, isQuiet: Bool, _ clock: ProgressClock) {
        isTerminal = console.isTerminal
        self.console = console
        self.isQuiet = isQuiet
        self.clock = clock
        start = clock.now()
    }

    /// Milliseconds since the beginning.
    var elapsed: Int64 { clock.now() - start }

    /// Returns whether the next line is due. If so, the interval starts again.
    mutating func isDue() -> Bool {
        let now = clock.now()
        guard !isQuiet, now - max(last, start) >= (isTerminal ? 100 : 5_000) else { return false }
        last = now
        return true
    }

    func show(_ text: String) {
        if isTerminal { console.progressLine(text) } else { console.error(text) }
    }

    /// Clears the line, if there is one.
    func end() {
        if !isQuiet, isTerminal { console.progressLine("") }
    }

    /// Clears the line and writes the summary, which remains.
    func finish(_ summary: String) {
        end()
        if !isQuiet { console.error(summary) }
    }

    /// The remaining time, such as `40 s` or `2 min 5 s`, if `share` of the work took `seconds`.
    static func left(afterSeconds seconds: Double, share: Double) -> String {
        span(seconds: Int(min(seconds / share - seconds, 1e9)))
    }

    /// `40 s`, `2 min 5 s`, `3 h 20 min`, `4 d 2 h`.
    static func span(seconds: Int) -> String {
        switch seconds {
        case ..<60: "\(seconds) s"
        case ..<3_600: "\(seconds / 60) min \(seconds % 60) s"
        case ..<86_400: "\(seconds / 3_600) h \(seconds % 3_600 / 60) min"
        default: "\(seconds / 86_400) d \(seconds % 86_400 / 3_600) h"
        }
    }

    /// Seconds with one decimal: `12.3 s`.
    static func duration(seconds: Double) -> String { "\(Double(Int(seconds * 10)) / 10) s" }
}

/// Shows the progress of an import or export: a bar on a terminal, otherwise a plain line every few seconds.
final class Progress {
    private let name: String
    private let what: String
    private let totalBytes: Int?
    private let estimatedRows: Int?
    private var line: ProgressLine

    /// - Parameters:
    ///   - what: the counted unit, such as rows.
    ///   - estimatedRows: the estimated number of rows, used if the number of bytes is unknown.
    init(
        _ console: Console, _ name: String, of what: String = "leaves", totalBytes: Int?, estimatedRows: Int? = nil,
        isQuiet: Bool, _ clock: ProgressClock = .system
    ) {
        self.name = name
        self.what = what
        self.totalBytes = totalBytes
        self.estimatedRows = estimatedRows
        line = ProgressLine(console, isQuiet: isQuiet, clock)
    }

    func update(rows: Int, bytes: Int) {
        guard line.isDue() else { return }
        let seconds = Double(line.elapsed) / 1_000
        var text = "\(name): \(Counted.text(rows, of: what)), \(Self.rate(rows, seconds)) a second"
        if let share = share(rows, bytes) {
            text += ", \(Int(share * 100)) %, \(ProgressLine.left(afterSeconds: seconds, share: share)) left"
            if line.isTerminal { text = "\(Self.bar(share)) \(text)" }
        }
        line.show(text)
    }

    private func share(_ rows: Int, _ bytes: Int) -> Double? {
        if let totalBytes, totalBytes > 0, bytes > 0 { return min(1, Double(bytes) / Double(totalBytes)) }
        // The estimate was too low: the total is unknown.
        guard let estimatedRows, rows > 0, rows < estimatedRows else { return nil }
        return Double(rows) / Double(estimatedRows)
    }

    /// Clears the line.
    func end() { line.end() }

    func finish(rows: Int) {
        let seconds = Double(line.elapsed) / 1_000
        line.finish(
            "\(name): \(Counted.text(rows, of: what)) in \(ProgressLine.duration(seconds: seconds)), \(Self.rate(rows, seconds)) a second"
        )
    }

    private static func rate(_ rows: Int, _ seconds: Double) -> Int { Int(Double(rows) / max(seconds, 0.001)) }

    private static func bar(_ share: Double) -> String {
        let filled = Int(share * 20)
        return "[" + String(repeating: "#", count: filled) + String(repeating: ".", count: 20 - filled) + "]"
    }
}

/// Shows the progress of a build: one line that is rewritten on a terminal, otherwise an occasional line.
final class BuildProgress {
    private let name: String
    private var line: ProgressLine

    init(_ console: Console, _ name: String, isQuiet: Bool, _ clock: ProgressClock = .system) {
        self.name = name
        line = ProgressLine(console, isQuiet: isQuiet, clock)
    }

    func update(_ progress: MirrorBuilder.Progress) {
        guard line.isDue() else { return }
        let text =
            switch progress {
            case .removedLeftover: "removed the rest of an interrupted build"
            case .copying(let rows):
                "\(Counted.text(rows, "row")), \(Int64(rows) * 1_000 / max(1, line.elapsed)) a second"
            case .indexing: "making indexes"
            case .catchingUp(let seq, let head): "catching up: seq \(seq) of \(head)"
            case .verifying(let rows): "comparing: \(Counted.text(rows, "row"))"
            case .swapping: "swapping"
            }
        line.show("\(name): \(text)")
    }

    func end() { line.end() }
}

/// Shows the elapsed time of work without measurable progress: one statement of the database, or a server that does not answer. It has a
/// thread of its own, because the working thread is blocked.
final class ElapsedLine: Sendable {
    private struct State {
        var text: String
        var isEnded = false
    }

    private let state: Condition<State>
    private let thread: Thread?

    /// - Parameters:
    ///   - text: the work in progress, such as `shop: removing 3 rows`.
    ///   - patience: work that ends before this time is not shown.
    ///   - interval: the interval of updates.
    init(
        _ console: Console, _ text: String, isQuiet: Bool, patience: Milliseconds = 2_000, interval: Milliseconds = 500
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
            while state.wait(milliseconds: interval, until: { $0.isEnded ? true : nil }) == nil {
                let elapsed = Clock.monotonicMilliseconds - start
                guard elapsed >= patience, line.isDue() else { continue }
                line.show("\(state.withLock { $0.text }), \(ProgressLine.span(seconds: Int(elapsed / 1_000)))")
            }
            line.end()
        }
    }

    /// Replaces the text with the work now in progress.
    func note(_ text: String) { state.withLock { $0.text = text } }

    /// Clears the line. No line is written after this returns.
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
    /// Runs `body`, and shows the elapsed time if it takes long.
    func reporting<Result>(
        _ text: String, isQuiet: Bool, patience: Milliseconds = 2_000, interval: Milliseconds = 500,
        _ body: (ElapsedLine) throws -> Result
    ) rethrows -> Result {
        let line = ElapsedLine(self, text, isQuiet: isQuiet, patience: patience, interval: interval)
        defer { line.end() }
        return try body(line)
    }
}
