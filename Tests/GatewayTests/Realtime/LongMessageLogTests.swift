import Runtime
import TestSupport
import Testing

@testable import Gateway

/// Tests of the log lines about messages above the size limit.
@Suite struct LongMessageLogTests {
    @Test func linesNameTheClientAndTheLimit() {
        let lines = LoggedLines()
        let log = LongMessageLog(lines.logger, limit: 1_000)
        log.note(from: IPAddress("203.0.113.9"), in: "shop", now: 5)
        let line = lines.lines(with: "--max-user-body")
        #expect(line.count == 1)
        for part in ["namespace=shop", "address=203.0.113.9", "limit=1000", "omitted=0"] {
            #expect(line.first?.contains(part) == true, "\(line)")
        }
    }

    @Test func thereIsOneLineASecond() {
        let lines = LoggedLines()
        let log = LongMessageLog(lines.logger, limit: 1_000)
        for now in [5, 6, 1_004, 1_005, 1_006, 3_000] as [Milliseconds] { log.note(from: nil, in: "shop", now: now) }
        #expect(lines.lines(with: "omitted=").count == 3)
        #expect(lines.lines(with: "omitted=2").count == 1)
        #expect(lines.lines(with: "omitted=1").count == 1)
    }
}
