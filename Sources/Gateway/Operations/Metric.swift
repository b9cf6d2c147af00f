import Runtime

/// A metric: its texts for `/.metrics` and the reference page, and a function that reads its numbers.
///
/// `Metric.groups` is the only list of metrics. `/.metrics` and docs/reference/metrics.md are generated from it.
struct Metric: Sendable {
    /// Metrics under one heading of the reference page.
    struct Group: Sendable {
        let title: String
        let metrics: [Metric]
    }

    /// Reads the metric's numbers; returns nil if this gateway has nothing to measure, such as TLS handshakes without
    /// TLS.
    typealias Reader = @Sendable (MetricSources) -> MetricReading?

    static let groups: [Group] = [
        Group(title: "Writes", metrics: writes), Group(title: "Namespaces and memory", metrics: namespaces),
        Group(title: "Databases and the log", metrics: databases),
        Group(title: "Requests and listeners", metrics: clients),
        Group(title: "Connections", metrics: connections), Group(title: "Bounds", metrics: bounds),
        Group(title: "Retention", metrics: retention), Group(title: "Mirrors", metrics: mirrors),
        Group(title: "Feeds", metrics: feeds), Group(title: "Followers", metrics: followers),
    ]

    /// The name without the prefix `pathmirror_`.
    let name: String
    let kind: MetricKind
    /// The label that distinguishes the metric's numbers; nil for a metric with one number.
    let label: String?
    /// A description of the metric, one sentence.
    let help: String
    /// The recommended reaction of an operator, in Markdown.
    let action: String
    let read: Reader

    var fullName: String { "pathmirror_" + name }

    /// Returns the text of `/.metrics`.
    static func page(_ sources: MetricSources) -> String {
        var text = MetricsText()
        for metric in groups.flatMap(\.metrics) {
            guard let reading = metric.read(sources) else { continue }
            text.write(metric.fullName, metric.kind, metric.help, label: metric.label, reading)
        }
        return text.text
    }
}

// MARK: Rows of the tables

extension Metric {
    static func counter(
        _ name: String, _ help: String, action: String, _ read: @escaping @Sendable (MetricSources) -> Int?
    ) -> Metric {
        Metric(name: name, kind: .counter, label: nil, help: help, action: action) { read($0).map { .count($0) } }
    }

    static func gauge(
        _ name: String, _ help: String, action: String, _ read: @escaping @Sendable (MetricSources) -> Int?
    ) -> Metric {
        Metric(name: name, kind: .gauge, label: nil, help: help, action: action) { read($0).map { .count($0) } }
    }

    static func counters(
        _ name: String, by label: String, _ help: String, action: String,
        _ read: @escaping @Sendable (MetricSources) -> [(String, Int)]?
    ) -> Metric {
        Metric(name: name, kind: .counter, label: label, help: help, action: action) { read($0).map { .counts($0) } }
    }

    static func gauges(
        _ name: String, by label: String, _ help: String, action: String,
        _ read: @escaping @Sendable (MetricSources) -> [(String, Int)]?
    ) -> Metric {
        Metric(name: name, kind: .gauge, label: label, help: help, action: action) { read($0).map { .counts($0) } }
    }

    /// A gauge in seconds for each value of a label.
    static func seconds(
        _ name: String, by label: String, _ help: String, action: String,
        _ read: @escaping @Sendable (MetricSources) -> [(String, Double)]?
    ) -> Metric {
        Metric(name: name, kind: .gauge, label: label, help: help, action: action) {
            read($0).map { .secondsByLabel($0) }
        }
    }

    /// A share of a limit for each value of a label.
    static func ratios(
        _ name: String, by label: String, _ help: String, action: String,
        _ read: @escaping @Sendable (MetricSources) -> [(String, Double)]?
    ) -> Metric {
        Metric(name: name, kind: .gauge, label: label, help: help, action: action) {
            read($0).map { .ratiosByLabel($0) }
        }
    }

    static func histogram(
        _ name: String, _ help: String, action: String, _ read: @escaping @Sendable (MetricSources) -> Histogram
    ) -> Metric {
        Metric(name: name, kind: .histogram, label: nil, help: help, action: action) { .histogram(read($0)) }
    }
}
