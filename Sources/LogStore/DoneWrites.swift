public import Tree

/// Which named writes are in the log, as far as somebody has looked. What it says is done is done for ever, as long as the
/// namespace keeps its history; what it doesn't know may be done nevertheless.
public struct DoneWrites: Sendable, Equatable {
    /// The writes of one writer.
    struct Known: Sendable, Equatable {
        /// In order, none touching another.
        var numbers: [ClosedRange<Int64>]
        /// The last entry among them, or a later one of the writer's.
        var seq: Int64
    }

    /// Of so many writers at most something is known; those of before are forgotten then.
    public static let capacity = 1_000

    private var writers: [String: Known] = [:]

    public init() {}

    public var isEmpty: Bool { writers.isEmpty }

    /// An entry as of which the write is done; nil where it is not known to be.
    public func seq(of name: WriteName) -> Int64? {
        guard let known = writers[name.writer] else { return nil }
        var low = 0
        var high = known.numbers.count
        while low < high {
            let middle = (low + high) / 2
            let range = known.numbers[middle]
            if range.contains(name.number) { return known.seq }
            if range.upperBound < name.number { low = middle + 1 } else { high = middle }
        }
        return nil
    }

    /// Takes in what somebody has found out.
    public mutating func learn(_ found: DoneWrites) {
        if writers.count + found.writers.count > Self.capacity { writers.removeAll() }
        writers.merge(found.writers) { _, new in new }
    }

    /// - Parameter text: a multirange of PostgreSQL: `{[1,4),[7,8)}`. False where it is none.
    mutating func set(_ writer: String, multirange text: String, seq: Int64) -> Bool {
        guard text.hasPrefix("{"), text.hasSuffix("}") else { return false }
        var numbers: [ClosedRange<Int64>] = []
        for part in text.dropFirst().dropLast().split(separator: ")") {
            let bounds = part.drop { $0 == "," }.dropFirst().split(separator: ",")
            guard bounds.count == 2, let first = Int64(bounds[0]), let end = Int64(bounds[1]), first < end else {
                return false
            }
            numbers.append(first...(end - 1))
        }
        writers[writer] = Known(numbers: numbers, seq: seq)
        return true
    }
}
