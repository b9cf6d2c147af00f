import Runtime
import TestSupport
import Testing

@testable import Engine
@testable import Gateway

/// Tests of the table of metrics and its reference page.
///
/// `PATHMIRROR_WRITE_REFERENCE=1` writes docs/reference/metrics.md before the comparison.
@Suite struct MetricReferenceTests {
    private static let page = RepositoryFile("docs/reference/metrics.md")

    private static var all: [Metric] { Metric.groups.flatMap(\.metrics) }

    /// The reference page, generated from the table.
    private static func reference() -> String {
        var text = """
            # Metrics

            `GET /.metrics` answers in the text format of Prometheus ([who may read it](gateway.md#metrics)).
            All names begin with `pathmirror_`; braces name the label of a metric.
            Numbers are in base units: seconds, bytes, entries.
            The right column says what an operator does about a metric.

            """
        for group in Metric.groups {
            text += "\n## \(group.title)\n\n| metric | type | meaning | what to do |\n| --- | --- | --- | --- |\n"
            for metric in group.metrics {
                let name = metric.fullName + (metric.label.map { "{\($0)}" } ?? "")
                text += "| `\(name)` | \(metric.kind.rawValue) | \(metric.help) | \(metric.action) |\n"
            }
        }
        return text
    }

    @Test func thePageIsPrintedFromTheTable() {
        let printed = Self.reference()
        #expect(
            Self.page.reference(printed: printed) == printed,
            "run: PATHMIRROR_WRITE_REFERENCE=1 make test ROOM=Gateway FILTER=MetricReferenceTests")
    }

    /// Checks Prometheus' conventions: only counters end in `_total`, base units come last, and names are unique.
    @Test func namesFollowTheConventions() {
        #expect(Set(Self.all.map(\.name)).count == Self.all.count)
        for metric in Self.all {
            #expect(metric.name.hasSuffix("_total") == (metric.kind == .counter), "\(metric.name)")
            #expect(metric.name.allSatisfy { $0.isLowercase && $0.isASCII || $0 == "_" }, "\(metric.name)")
            for unit in ["milliseconds", "microseconds", "minutes", "kilobytes", "megabytes", "_ms", "_mib"] {
                #expect(!metric.name.contains(unit), "\(metric.name)")
            }
            #expect(metric.help.hasSuffix(".") && !metric.help.contains("\n"), "\(metric.name)")
            #expect(metric.action.hasSuffix(".") && !metric.action.contains("|"), "\(metric.name)")
            #expect(!metric.help.contains("|"), "\(metric.name)")
        }
    }

    /// Checks that every metric of the table is written if there is a value, and that all samples have the metric's
    /// label.
    @Test func everyMetricIsWritten() {
        var sources = MetricSources()
        sources.databases = [("home", true)]
        sources.namespaces = NamespaceGauges([
            NamespaceGauges.Facts(name: "n", head: 1, lag: 2, rows: 3, waiting: 4)
        ])
        sources.memory = MemoryFacts(namespaces: 1, bytes: 2, budget: 3, waitingLoads: 4, pages: nil)
        sources.rateLimited = [("address", 1)]
        sources.certificateExpiresAt = 99
        sources.mirrors = [
            MirrorFacts(
                namespace: "n", name: "m", state: "running", lagEntries: 1, lagMilliseconds: 1_500, message: nil)
        ]
        sources.feeds = [
            FeedFacts(
                namespace: "n", name: "f", isUp: true, lagMilliseconds: 1, heldMessages: 2, acknowledged: 3,
                redelivered: 4, deadLetters: 5, holdsBackMilliseconds: 6)
        ]
        sources.followers = [
            FollowerFacts(
                namespace: "n", state: "following", hasProblem: false, lagMilliseconds: 5, receivedBytes: 6, entries: 7,
                resyncs: 1,
                dailyLimitRatio: 0.5)
        ]
        sources.stalls = [("loop-0", 0.25)]
        let lines = Metric.page(sources).split(separator: "\n")
        for metric in Self.all {
            #expect(lines.contains { $0 == "# TYPE \(metric.fullName) \(metric.kind.rawValue)" }, "\(metric.name)")
            let suffix = metric.kind == .histogram ? "_count" : ""
            let sample = metric.fullName + suffix + (metric.label.map { "{\($0)=\"" } ?? " ")
            #expect(lines.contains { $0.hasPrefix(sample) }, "\(metric.name)")
        }
        #expect(lines.contains("pathmirror_mirror_lag_seconds{mirror=\"n/m\"} 1.5"))
        #expect(lines.contains("pathmirror_longest_stall_seconds{thread=\"loop-0\"} 0.25"))
        #expect(lines.contains("pathmirror_database_up{database=\"home\"} 1"))
    }

    @Test func withoutTLSItsMetricsAreLeftOut() {
        #expect(!Metric.page(MetricSources()).contains("pathmirror_tls_"))
    }

    /// Checks that the advice names existing alerts and options, and that each alert about the gateway belongs to a
    /// metric's advice.
    @Test func adviceNamesWhatThereIs() {
        let alerts = RepositoryFile("deploy/prometheus/alerts.yml").text
        let options = RepositoryFile("docs/reference/options.md").text
        let advice = Self.all.map(\.action).joined(separator: "\n")
        for alert in advice.matches(of: /`(Pathmirror\w+)`/).map({ $0.1 }) {
            #expect(alerts.contains("alert: \(alert)\n"), "\(alert)")
        }
        for option in (advice + Self.all.map(\.help).joined()).matches(of: /`--([a-z-]+)`/).map({ $0.1 }) {
            // A row of the option table lists the environment variable next to the option. A row of renamed options
            // does not.
            let variable = "PATHMIRROR_" + option.uppercased().replacing("-", with: "_")
            #expect(
                options.matches(of: /\| `--([a-z-]+)[^`|]*` \| `(PATHMIRROR_[A-Z_]+)` \|/).contains {
                    $0.1 == option && $0.2 == variable
                }, "--\(option)")
        }
        for alert in alerts.matches(of: /alert: (\w+)/).map({ $0.1 }) where alert != "PathmirrorGatewayDown" {
            #expect(advice.contains("`\(alert)`"), "\(alert) is in the advice of no metric")
        }
    }
}
