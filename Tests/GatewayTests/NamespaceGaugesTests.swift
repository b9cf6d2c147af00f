import Testing

@testable import Gateway

@Suite struct NamespaceGaugesTests {
    private func facts(_ count: Int) -> [NamespaceGauges.Facts] {
        (0..<count).map { .init(name: "n\($0)", head: $0, lag: $0 % 700, rows: 2, waiting: 1) }
    }

    @Test(arguments: [0, 1, NamespaceGauges.mostNamed])
    func fewAreListedOneByOne(count: Int) {
        #expect(NamespaceGauges(facts(count)).facts == facts(count))
    }

    @Test func mostOfManyAreSummarized() {
        let gauges = NamespaceGauges(facts(20_000))
        #expect(gauges.count == 20_000)
        #expect(Array(gauges.facts.dropLast()) == facts(NamespaceGauges.mostNamed))
        #expect(gauges.facts.last == .init(name: "*", head: nil, lag: 699, rows: 38_000, waiting: 19_000))
        var sources = MetricSources()
        sources.namespaces = gauges
        let page = Metric.page(sources)
        #expect(page.contains("pathmirror_namespaces 20000\n"))
        #expect(page.contains("pathmirror_tail_lag_entries{namespace=\"*\"} 699\n"))
        #expect(!page.contains("pathmirror_log_head_seq{namespace=\"*\"}"))
    }
}
