import LogStore

/// Shows the progress of a replay, and limits its rate.
final class ReplayProgress {
    private let name: String
    /// The counted unit, such as "entries".
    private let unit: String
    private let rate: Int?
    private let total: Int64?
    /// Whether the total is an estimate that may be too low.
    private let isEstimate: Bool
    private let clock: ProgressClock
    private let interruption: Interruption
    private var line: ProgressLine
    private(set) var done: Int64 = 0
    /// The total of bulk data to read besides the counted unit, and the part read so far.
    private let bulkTotal: BulkRead
    private var bulk = BulkRead()

    static let rateOption = OptionSpecification(
        "rate", "N", "limits the rate per second, to spare other work; default unlimited")

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

    /// Returns the page size with which pauses between pages keep to the rate.
    func pageLimit(atMost limit: Int) -> Int { rate.map { max(1, min(limit, $0 / 5)) } ?? limit }

    func advance(by count: Int) { advance(to: done + Int64(count)) }

    /// Notes how many are done, and waits if the rate was exceeded.
    func advance(to done: Int64) {
        self.done = done
        if let rate {
            let due = done * 1_000 / Int64(rate)
            // An interrupted command does not wait: its next statement ends it.
            while case let early = due - line.elapsed, early > 0, interruption.signal == nil {
                clock.pause(min(early, 200))
                show()
            }
        }
        show()
    }

    /// Notes the part of a snapshot or of a bulk entry that was read. The rate does not limit this part.
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

    /// Clears the line, if there is one.
    func end() { line.end() }

    func finish(_ summary: String) {
        line.finish("\(name): \(summary) in \(ProgressLine.duration(seconds: Double(line.elapsed) / 1_000))")
    }
}
