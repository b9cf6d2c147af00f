import Glibc
import Runtime

/// Tells how far a replay has come, and holds it to a rate.
final class ReplayProgress {
    private let console: Console
    private let name: String
    /// What is counted, such as "entries".
    private let unit: String
    private let isQuiet: Bool
    private let rate: Int?
    private var total: Int64?
    private let start = Clock.monotonicMilliseconds
    private var last: Int64 = 0
    private(set) var done: Int64 = 0

    static let rateOption = OptionSpecification(
        "rate", "N", "at most so many a second, so that others are not slowed; default as many as there can be")

    init(
        _ console: Console, _ name: String, _ unit: String = "entries", total: Int64? = nil, rate: Int? = nil,
        isQuiet: Bool = false
    ) {
        self.console = console
        self.name = name
        self.unit = unit
        self.total = total
        self.rate = rate
        self.isQuiet = isQuiet
    }

    static func rate(_ arguments: ParsedArguments) throws -> Int? { try arguments.integer("rate", in: 1...100_000_000) }

    /// How many to take at once, so that waiting in between keeps to the rate.
    func pageLimit(atMost limit: Int) -> Int { rate.map { max(1, min(limit, $0 / 5)) } ?? limit }

    func advance(by count: Int) { advance(to: done + Int64(count)) }

    /// Notes how many are done, and waits if that were too many.
    func advance(to done: Int64) {
        self.done = done
        if let rate {
            let due = start + done * 1_000 / Int64(rate)
            while case let early = due - Clock.monotonicMilliseconds, early > 0 {
                usleep(UInt32(min(early, 200)) * 1_000)
                show()
            }
        }
        show()
    }

    private func show() {
        let now = Clock.monotonicMilliseconds
        guard !isQuiet, now - max(last, start) >= (console.isTerminal ? 100 : 5_000) else { return }
        last = now
        let seconds = max(0.001, Double(now - start) / 1_000)
        var text = "\(name): \(done) \(unit), \(Int(Double(done) / seconds)) a second"
        if let total, total > 0, done > 0 {
            let share = min(1, Double(done) / Double(total))
            let left = Int(seconds / share - seconds)
            text += ", \(Int(share * 100)) %, \(left < 60 ? "\(left) s" : "\(left / 60) min \(left % 60) s") left"
        }
        if console.isTerminal { console.progressLine(text) } else { console.error(text) }
    }

    /// Clears the line, where there is one.
    func end() {
        if !isQuiet, console.isTerminal { console.progressLine("") }
    }

    func finish(_ summary: String) {
        end()
        guard !isQuiet else { return }
        let seconds = Double(Clock.monotonicMilliseconds - start) / 1_000
        console.error("\(name): \(summary) in \(Double(Int(seconds * 10)) / 10) s")
    }
}
