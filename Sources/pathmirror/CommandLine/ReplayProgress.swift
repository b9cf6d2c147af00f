import LogStore

/// Tells how far a replay has come, and holds it to a rate.
final class ReplayProgress {
    private let name: String
    /// What is counted, such as "entries".
    private let unit: String
    private let rate: Int?
    private let total: Int64?
    /// There may be more, and then nobody knows how many.
    private let isEstimate: Bool
    private let clock: ProgressClock
    private let interruption: Interruption
    private var line: ProgressLine
    private(set) var done: Int64 = 0
    /// What there is to read beside what is counted, and how much of it was.
    private let bulkTotal: BulkRead
    private var bulk = BulkRead()

    static let rateOption = OptionSpecification(
        "rate", "N", "at most so many a second, so that others are not slowed; default as many as there can be")

    init(
        _ console: Console, _ name: String, _ unit: String = "entries", total: Int64? = nil, isEstimate: Bool = false,
        bulk: BulkRead = BulkRead(), rate: Int? = nil,
        isQuiet: Bool = false, _ clock: ProgressClock = .system
    ) {
        self.name = name
        self.unit = unit
        self.total = total
        self.isEstimate = isEstimate
        bulkTotal = bulk
        self.rate = rate
        self.clock = clock
        interruption = console.interruption
        line = ProgressLine(console, isQuiet: isQuiet, clock)
    }

    static func rate(_ arguments: ParsedArguments) throws -> Int? { try arguments.integer("rate", in: 1...100_000_000) }

    /// How many to take at once, so that waiting in between keeps to the rate.
    func pageLimit(atMost limit: Int) -> Int { rate.map { max(1, min(limit, $0 / 5)) } ?? limit }

    func advance(by count: Int) { advance(to: done + Int64(count)) }

    /// Notes how many are done, and waits if that were too many.
    func advance(to done: Int64) {
        self.done = done
        if let rate {
            let due = done * 1_000 / Int64(rate)
            // Who is to stop is not held up: the next statement ends it.
            while case let early = due - line.elapsed, early > 0, interruption.signal == nil {
                clock.pause(min(early, 200))
                show()
            }
        }
        show()
    }

    /// Notes what was read of a snapshot or of a bulk entry. The rate is of what is counted; this passes as fast as it can.
    func note(_ bulk: BulkRead) throws(Interrupted) {
        self.bulk = bulk
        show()
        try interruption.check()
    }

    private func show() {
        guard line.isDue() else { return }
        let seconds = max(0.001, Double(line.elapsed) / 1_000)
        let leaves = bulk.leaves > 0 ? ", \(Counted.text(bulk.leaves, of: "leaves"))" : ""
        var text =
            "\(name): \(Counted.text(done, of: unit))\(leaves), \(Int(Double(done + bulk.leaves) / seconds)) a second"
        let work = done + bulk.work
        if let total, total + bulkTotal.work > 0, work > 0, !isEstimate || work < total {
            let share = min(1, Double(work) / Double(total + bulkTotal.work))
            text += ", \(Int(share * 100)) %, \(ProgressLine.left(afterSeconds: seconds, share: share)) left"
        }
        line.show(text)
    }

    /// Clears the line, where there is one.
    func end() { line.end() }

    func finish(_ summary: String) {
        line.finish("\(name): \(summary) in \(ProgressLine.duration(seconds: Double(line.elapsed) / 1_000))")
    }
}
