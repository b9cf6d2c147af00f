internal import Synchronization

/// A number that only grows.
public final class Counter: Sendable {
    private let value = Atomic<Int>(0)
    public init() {}
    /// Counts; on any thread.
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
        /// Cumulative counts, one a bound, as Prometheus wants them.
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

    /// Counts a value into its bucket; on any thread.
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

/// Writes metrics in Prometheus' text form, version 0.0.4.
public struct MetricsText {
    public private(set) var text = ""

    public init() {}

    /// Writes a counter in Prometheus' text format.
    public mutating func counter(_ name: String, _ help: String, _ value: Int) {
        header(name, help, "counter")
        text += "\(name) \(value)\n"
    }

    /// Writes a gauge in Prometheus' text format.
    public mutating func gauge(_ name: String, _ help: String, _ value: Int) {
        header(name, help, "gauge")
        text += "\(name) \(value)\n"
    }

    /// One gauge a label value.
    public mutating func gauges(_ name: String, _ help: String, label: String, _ values: [(String, Int)]) {
        header(name, help, "gauge")
        for (labelValue, value) in values {
            text += "\(name){\(label)=\"\(Self.escaped(labelValue))\"} \(value)\n"
        }
    }

    /// One counter a label value.
    public mutating func counters(_ name: String, _ help: String, label: String, _ values: [(String, Int)]) {
        header(name, help, "counter")
        for (labelValue, value) in values {
            text += "\(name){\(label)=\"\(Self.escaped(labelValue))\"} \(value)\n"
        }
    }

    /// Writes a histogram in Prometheus' text format: cumulative buckets, sum and count.
    public mutating func histogram(_ name: String, _ help: String, _ histogram: Histogram) {
        header(name, help, "histogram")
        let snapshot = histogram.current
        for (bound, count) in zip(histogram.bounds, snapshot.cumulative) {
            text += "\(name)_bucket{le=\"\(bound)\"} \(count)\n"
        }
        text += "\(name)_bucket{le=\"+Inf\"} \(snapshot.count)\n"
        text += "\(name)_sum \(snapshot.sum)\n\(name)_count \(snapshot.count)\n"
    }

    private mutating func header(_ name: String, _ help: String, _ type: String) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
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
