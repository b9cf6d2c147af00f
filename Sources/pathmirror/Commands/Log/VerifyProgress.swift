import LogStore

/// Tells how far `log verify` is.
final class VerifyProgress {
    private let console: Console
    private let isQuiet: Bool
    private var line: ProgressLine
    private var total: (entries: Int64, bulk: BulkRead, rows: Int64) = (0, BulkRead(), 0)
    private var done: (entries: Int64, bulk: BulkRead, rows: Int64) = (0, BulkRead(), 0)
    /// While something is compared that says nothing on its way.
    private var comparison: ElapsedLine?

    init(_ console: Console, isQuiet: Bool, _ clock: ProgressClock = .system) {
        self.console = console
        self.isQuiet = isQuiet
        line = ProgressLine(console, isQuiet: isQuiet, clock)
    }

    /// Entries that were read.
    var entries: Int64 { done.entries }

    func update(_ progress: Verification.Progress) throws {
        try console.interruption.check()
        comparison?.end()
        comparison = nil
        switch progress {
        case .begins(let entries, let bulk, let rows):
            total = (entries, bulk, rows)
            done = (0, BulkRead(), 0)
        case .entries(let count): done.entries = count
        case .bulk(let read): done.bulk = read
        case .rows(let count): done.rows = count
        case .comparing(let name):
            comparison = ElapsedLine(console, "verify: comparing \(name)", isQuiet: isQuiet)
            return
        }
        guard line.isDue() else { return }
        line.show(text)
    }

    private var text: String {
        let seconds = max(0.001, Double(line.elapsed) / 1_000)
        var text = "verify: \(done.entries) of \(total.entries) entries"
        if done.bulk.leaves > 0 { text += ", \(done.bulk.leaves) leaves of them" }
        if done.rows > 0 { text += ", \(done.rows) of \(total.rows) rows of the tree" }
        text += ", \(Int(Double(done.entries + done.bulk.leaves + done.rows) / seconds)) a second"
        let all = total.entries + total.bulk.work + total.rows
        let share = Double(done.entries + done.bulk.work + done.rows) / Double(max(1, all))
        guard share > 0 else { return text }
        return text
            + ", \(Int(min(1, share) * 100)) %, \(ProgressLine.left(afterSeconds: seconds, share: min(1, share))) left"
    }

    /// Clears the line.
    func end() {
        comparison?.end()
        comparison = nil
        line.end()
    }
}
