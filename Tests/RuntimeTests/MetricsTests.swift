import Runtime
import Testing

/// Checks metrics, and their form in Prometheus' text format (version 0.0.4), byte for byte.
@Suite struct MetricsTests {
    @Test func numbersAreCountedOnAnyThread() {
        let counter = Counter()
        let gauge = Gauge()
        let histogram = Histogram(bounds: [1, 10])
        let threads = (0..<4).map { index in
            Thread(name: "count") {
                for _ in 0..<1_000 {
                    counter.add()
                    counter.add(2)
                    gauge.add(index % 2 == 0 ? 3 : -3)
                    histogram.observe(Double(index * 5))
                }
            }
        }
        for thread in threads { thread.join() }
        #expect(counter.current == 12_000)
        #expect(gauge.current == 0)
        #expect(histogram.current.cumulative == [1_000, 3_000])
        #expect(histogram.current.count == 4_000)
        #expect(histogram.current.sum == 30_000)
        gauge.set(-7)
        #expect(gauge.current == -7)
    }

    /// A bound belongs to its bucket; a value above the last bound is only in the count.
    @Test(
        arguments: [
            (0.5, [1, 1, 1]), (1, [1, 1, 1]), (1.000001, [0, 1, 1]), (2, [0, 1, 1]), (5, [0, 0, 1]), (5.1, [0, 0, 0]),
            (-3, [1, 1, 1]), (.infinity, [0, 0, 0]), (.nan, [0, 0, 0]),
        ] as [(Double, [Int])])
    func oneObservation(value: Double, cumulative: [Int]) {
        let histogram = Histogram(bounds: [1, 2, 5])
        histogram.observe(value)
        #expect(histogram.current.cumulative == cumulative)
        #expect(histogram.current.count == 1)
    }

    @Test func histogramIsCumulative() {
        let histogram = Histogram(bounds: [1, 2, 5])
        for value in [0.5, 1, 1.5, 4, 9] { histogram.observe(value) }
        #expect(histogram.current.cumulative == [2, 3, 4])
        #expect(histogram.current.count == 5)
        #expect(histogram.current.sum == 16)
        var text = MetricsText()
        text.write("h", .histogram, "Help.", .histogram(histogram))
        #expect(
            text.text == """
                # HELP h Help.
                # TYPE h histogram
                h_bucket{le="1.0"} 2
                h_bucket{le="2.0"} 3
                h_bucket{le="5.0"} 4
                h_bucket{le="+Inf"} 5
                h_sum 16.0
                h_count 5

                """)
    }

    @Test func anEmptyHistogramIsWhole() {
        var text = MetricsText()
        text.write("h", .histogram, "Help.", .histogram(Histogram(bounds: [0.005])))
        #expect(text.text.hasSuffix("h_bucket{le=\"0.005\"} 0\nh_bucket{le=\"+Inf\"} 0\nh_sum 0.0\nh_count 0\n"))
    }

    @Test func eachKindHasItsHead() {
        var text = MetricsText()
        text.write("c_total", .counter, "Counted.", .count(3))
        text.write("g", .gauge, "Now.", .count(-2))
        text.write("gs", .gauge, "By l.", label: "l", .counts([("a", 1), ("b", 2)]))
        text.write("cs", .counter, "By k.", label: "k", .counts([("x", 9)]))
        text.write("s", .gauge, "Seconds.", .seconds(0.25))
        text.write("ss", .gauge, "By l.", label: "l", .secondsByLabel([("a", 3)]))
        text.write("rs", .gauge, "Shares.", label: "l", .ratiosByLabel([("a", 0.5)]))
        text.write("none", .gauge, "Nothing.", label: "l", .counts([]))
        #expect(
            text.text == """
                # HELP c_total Counted.
                # TYPE c_total counter
                c_total 3
                # HELP g Now.
                # TYPE g gauge
                g -2
                # HELP gs By l.
                # TYPE gs gauge
                gs{l="a"} 1
                gs{l="b"} 2
                # HELP cs By k.
                # TYPE cs counter
                cs{k="x"} 9
                # HELP s Seconds.
                # TYPE s gauge
                s 0.25
                # HELP ss By l.
                # TYPE ss gauge
                ss{l="a"} 3.0
                # HELP rs Shares.
                # TYPE rs gauge
                rs{l="a"} 0.5
                # HELP none Nothing.
                # TYPE none gauge

                """)
    }

    /// No label can end its quotes or its line.
    @Test(arguments: [
        ("a\"b\\c\nd", "a\\\"b\\\\c\\nd"), ("", ""), ("plain é 😀", "plain é 😀"), ("\\n", "\\\\n"), ("\"", "\\\""),
        ("{}", "{}"),
    ])
    func labelsAreEscaped(label: String, written: String) {
        var text = MetricsText()
        text.write("g", .gauge, "Help.", label: "l", .counts([(label, 3)]))
        #expect(text.text.hasSuffix("g{l=\"\(written)\"} 3\n"))
    }
}
