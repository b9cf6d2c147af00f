import Glibc
import Runtime
import Testing

@Suite struct ConditionTests {
    @Test func waitsForWhatAnotherThreadDoes() {
        let condition = Condition(0)
        let thread = Thread(name: "counter") {
            for _ in 0..<1_000 { condition.signal { $0 += 1 } }
        }
        #expect(condition.wait(milliseconds: 20_000) { $0 == 1_000 ? $0 : nil } == 1_000)
        thread.join()
        thread.join()
    }

    @Test func deadline() {
        let condition = Condition(0)
        let start = Clock.monotonicMilliseconds
        #expect(condition.wait(milliseconds: 30) { _ in nil as Int? } == nil)
        #expect(Clock.monotonicMilliseconds - start >= 30)
    }
}

@Suite struct WorkerPoolTests {
    @Test func runsEachJobOnce() {
        let pool = WorkerPool(name: "pool", threads: 3)
        let count = Condition(0)
        for _ in 0..<500 { #expect(pool.submit { count.signal { $0 += 1 } }) }
        #expect(count.wait(milliseconds: 20_000) { $0 >= 500 ? true : nil } == true)
        pool.stop()
        #expect(count.withLock { $0 } == 500)
        #expect(!pool.submit {})
    }

    @Test func refusesOverItsBound() {
        let pool = WorkerPool(name: "pool", threads: 1, capacity: 3)
        let gate = Condition((isBusy: false, isOpen: false))
        #expect(
            pool.submit {
                gate.broadcast { $0.isBusy = true }
                _ = gate.wait { $0.isOpen ? true : nil }
            })
        // The one thread has the job; the queue is empty.
        _ = gate.wait { $0.isBusy ? true : nil }
        let taken = (0..<6).filter { _ in pool.submit {} }
        #expect(taken.count == 3)
        gate.broadcast { $0.isOpen = true }
        pool.stop()
    }
}

@Suite struct SecretTests {
    @Test func isNotShown() {
        let secret = Secret("hunter2")
        var dumped = ""
        dump(secret, to: &dumped)
        for text in ["\(secret)", String(describing: secret), String(reflecting: secret), dumped, "\([secret])"] {
            #expect(!text.contains("hunter2"))
        }
        #expect(secret.revealed() == "hunter2")
    }
}

@Suite struct MetricsTests {
    @Test func histogramIsCumulative() {
        let histogram = Histogram(bounds: [1, 2, 5])
        for value in [0.5, 1, 1.5, 4, 9] { histogram.observe(value) }
        #expect(histogram.current.cumulative == [2, 3, 4])
        #expect(histogram.current.count == 5)
        #expect(histogram.current.sum == 16)
        var text = MetricsText()
        text.histogram("h", "Help.", histogram)
        #expect(text.text.contains("h_bucket{le=\"+Inf\"} 5\n"))
        #expect(text.text.contains("h_count 5\n"))
    }

    @Test func labelsAreEscaped() {
        var text = MetricsText()
        text.gauges("g", "Help.", label: "l", [("a\"b\\c\nd", 3)])
        #expect(text.text.hasSuffix("g{l=\"a\\\"b\\\\c\\nd\"} 3\n"))
    }
}

@Suite struct TimestampTests {
    @Test func text() {
        #expect(Timestamp.iso8601(unixMilliseconds: 0) == "1970-01-01T00:00:00.000Z")
        #expect(Timestamp.iso8601(unixMilliseconds: 1_769_903_999_123) == "2026-01-31T23:59:59.123Z")
        #expect(Timestamp.iso8601(unixMilliseconds: -1) == "1969-12-31T23:59:59.999Z")
    }
}

@Suite struct LoggerTests {
    /// What a logger writes, line by line.
    private func lines(_ format: Logger.Format, _ body: (Logger) -> Void) -> [String] {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { return [] }
        body(Logger(level: .info, format: format, descriptor: ends[1]))
        close(ends[1])
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = read(ends[0], &bytes, bytes.count)
        close(ends[0])
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self).split(separator: "\n").map(String.init)
    }

    /// Nothing that is logged can make a line of its own.
    @Test(arguments: [Logger.Format.text, .json])
    func oneLineAnEvent(format: Logger.Format) {
        let found = lines(format) { logger in
            logger.debug("not shown")
            logger.info("two\nlines", [("key", "a\nb \"c\" \u{1}\\")])
            logger.error("plain", [("key", "value")])
        }
        #expect(found.count == 2)
        #expect(found.allSatisfy { !$0.utf8.contains { $0 < 0x20 } })
    }
}
