internal import Synchronization

/// A number that only grows.
public final class Counter: Sendable {
    private let value = Atomic<Int>(0)
    public init() {}
    /// Adds to the counter; on any thread.
    public func add(_ count: Int = 1) { value.wrappingAdd(count, ordering: .relaxed) }
    public var current: Int { value.load(ordering: .relaxed) }
}

/// A number that goes up and down.
public final class Gauge: Sendable {
    private let value = Atomic<Int>(0)
    public init() {}
    /// Raises the value, or lowers it with a negative count; on any thread.
    public func add(_ count: Int) { value.wrappingAdd(count, ordering: .relaxed) }
    /// Sets the value; on any thread.
    public func set(_ count: Int) { value.store(count, ordering: .relaxed) }
    public var current: Int { value.load(ordering: .relaxed) }
}

/// Counts observations in buckets with fixed upper bounds.
public final class Histogram: Sendable {
    public struct Snapshot: Sendable {
        /// Cumulative counts, one per bound, as Prometheus requires them.
        public let cumulative: [Int]
        public let count: Int
        public let sum: Double
    }
    private struct State {
        var counts: [Int]
        var count = 0
        var sum = 0.0
    }
    public let bounds: [Double]
    private let state: Mutex<State>

    public init(bounds: [Double]) {
        self.bounds = bounds
        state = Mutex(State(counts: Array(repeating: 0, count: bounds.count)))
    }

    /// Adds a value to its bucket; on any thread.
    public func observe(_ value: Double) {
        let bucket = bounds.firstIndex { value <= $0 }
        state.withLock { state in
            if let bucket { state.counts[bucket] += 1 }
            state.count += 1
            state.sum += value
        }
    }

    public var current: Snapshot {
        state.withLock { state in
            var total = 0
            let cumulative = state.counts.map { count in
                total += count
                return total
            }
            return Snapshot(cumulative: cumulative, count: state.count, sum: state.sum)
        }
    }
}

/// The kind of a metric family, as the text format names it.
public enum MetricKind: String, Sendable, CaseIterable {
    case counter, gauge, histogram
}

/// The numbers of one family at one time.
public enum MetricReading: Sendable {
    case count(Int)
    case seconds(Double)
    /// One number for each value of the family's label.
    case counts([(String, Int)])
    /// Seconds for each value of the family's label.
    case secondsByLabel([(String, Double)])
    /// A share, from 0 to 1 or above, for each value of the family's label.
    case ratiosByLabel([(String, Double)])
    case histogram(Histogram)
}

/// Writes metrics in the text format of Prometheus, version 0.0.4.
public struct MetricsText {
    public private(set) var text = ""

    public init() {}

    /// Writes a family with its samples.
    ///
    /// - Parameter label: the name of the label that distinguishes the numbers of a reading; unused for a reading with
    ///   one number.
    public mutating func write(
        _ name: String, _ kind: MetricKind, _ help: String, label: String? = nil, _ reading: MetricReading
    ) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
        switch reading {
        case .count(let count): text += "\(name) \(count)\n"
        case .seconds(let seconds): text += "\(name) \(seconds)\n"
        case .counts(let counts): for (value, count) in counts { sample(name, label, value, "\(count)") }
        case .secondsByLabel(let all), .ratiosByLabel(let all):
            for (value, number) in all { sample(name, label, value, "\(number)") }
        case .histogram(let histogram): buckets(name, histogram)
        }
    }

    private mutating func sample(_ name: String, _ label: String?, _ value: String, _ number: String) {
        text += "\(name){\(label ?? "label")=\"\(Self.escaped(value))\"} \(number)\n"
    }

    private mutating func buckets(_ name: String, _ histogram: Histogram) {
        let snapshot = histogram.current
        for (bound, count) in zip(histogram.bounds, snapshot.cumulative) {
            text += "\(name)_bucket{le=\"\(bound)\"} \(count)\n"
        }
        text += "\(name)_bucket{le=\"+Inf\"} \(snapshot.count)\n"
        text += "\(name)_sum \(snapshot.sum)\n\(name)_count \(snapshot.count)\n"
    }

    private static func escaped(_ value: String) -> String {
        var text = ""
        for character in value {
            switch character {
            case "\\": text += "\\\\"
            case "\"": text += "\\\""
            case "\n": text += "\\n"
            default: text.append(character)
            }
        }
        return text
    }
}
