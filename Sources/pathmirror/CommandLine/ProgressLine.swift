import Glibc
import Runtime

/// Time, for those who tell how long something takes and wait in between.
struct ProgressClock {
    /// Milliseconds that never step back.
    let now: () -> Milliseconds
    /// Waits for so many milliseconds.
    let pause: (Milliseconds) -> Void

    static var system: ProgressClock {
        ProgressClock(now: { Clock.monotonicMilliseconds }, pause: { usleep(UInt32($0) * 1_000) })
    }
}

/// The line that tells how far a command has come: it moves on a terminal; elsewhere one is written now and then.
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

    /// Whether it is time for another line; the answer yes counts as one.
    mutating func isDue() -> Bool {
        let now = clock.now()
        guard !isQuiet, now - max(last, start) >= (isTerminal ? 100 : 5_000) else { return false }
        last = now
        return true
    }

    func show(_ text: String) {
        if isTerminal { console.progressLine(text) } else { console.error(text) }
    }

    /// Clears the line, where there is one.
    func end() {
        if !isQuiet, isTerminal { console.progressLine("") }
    }

    /// Clears the line and writes what is to stay.
    func finish(_ summary: String) {
        end()
        if !isQuiet { console.error(summary) }
    }

    /// How much longer it takes, when `share` of it took `seconds`: such as `40 s` or `2 min 5 s`.
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

    /// With one digit: `12.3 s`.
    static func duration(seconds: Double) -> String { "\(Double(Int(seconds * 10)) / 10) s" }
}
