import Runtime

/// Tells how far a long command has come: a bar on a terminal, a plain line every few seconds otherwise.
final class Progress {
    private let console: Console
    private let name: String
    private let totalBytes: Int?
    private let isQuiet: Bool
    private let start = Clock.monotonicMilliseconds
    private var last: Int64 = 0

    init(_ console: Console, _ name: String, totalBytes: Int?, isQuiet: Bool) {
        self.console = console
        self.name = name
        self.totalBytes = totalBytes
        self.isQuiet = isQuiet
    }

    func update(rows: Int, bytes: Int) {
        let now = Clock.monotonicMilliseconds
        guard !isQuiet, now - max(last, start) >= (console.isTerminal ? 100 : 5_000) else { return }
        last = now
        let seconds = Double(now - start) / 1_000
        var text = "\(name): \(rows) leaves, \(Int(Double(rows) / max(seconds, 0.001))) a second"
        if let totalBytes, totalBytes > 0, bytes > 0 {
            let share = min(1, Double(bytes) / Double(totalBytes))
            let left = Int(seconds / share - seconds)
            text += ", \(Int(share * 100)) %, \(Self.duration(left)) left"
            if console.isTerminal { text = "\(Self.bar(share)) \(text)" }
        }
        if console.isTerminal { console.progressLine(text) } else { console.error(text) }
    }

    /// Clears the line.
    func end() {
        if !isQuiet, console.isTerminal { console.progressLine("") }
    }

    func finish(rows: Int) {
        guard !isQuiet else { return }
        end()
        let seconds = Double(Clock.monotonicMilliseconds - start) / 1_000
        console.error(
            "\(name): \(rows) leaves in \(Double(Int(seconds * 10)) / 10) s, \(Int(Double(rows) / max(seconds, 0.001))) a second"
        )
    }

    private static func bar(_ share: Double) -> String {
        let filled = Int(share * 20)
        return "[" + String(repeating: "#", count: filled) + String(repeating: ".", count: 20 - filled) + "]"
    }

    private static func duration(_ seconds: Int) -> String {
        seconds < 60 ? "\(seconds) s" : "\(seconds / 60) min \(seconds % 60) s"
    }
}
