import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that every database call of a log reader may lose its connection, one at a time: before the call, and after
/// it. The reader is then refused, or does not notice; it never gets a line twice, or too few lines.
@Suite struct FailingLogReadTests {
    /// Repeats a request until the database is available.
    private static func ask<Value: Sendable>(
        _ question: (@escaping @Sendable (Result<Value, LogReadError>) -> Void) -> Void
    ) throws -> Value {
        var answer: Result<Value, LogReadError>?
        _ = eventually(seconds: 20) {
            let box = Condition<Result<Value, LogReadError>?>(nil)
            question { result in box.broadcast { $0 = result } }
            answer = box.wait(milliseconds: 20_000) { $0 }
            if case .failure(.engine(.unavailable)) = answer { return false }
            return true
        }
        return try (answer ?? .failure(.engine(.unavailable("there was no answer")))).get()
    }

    /// Writes plain entries with an import between them.
    private static func fill(_ url: PostgresURL, _ namespace: LiveNamespace) throws {
        for number in 1...7 as ClosedRange<Int64> { _ = namespace.write(.set("a/k\(number)", .int(number))) }
        let connection = try LogConnection(url)
        defer { connection.close() }
        let record = try #require(try connection.namespace(id: namespace.id))
        var settings = Importer.Settings()
        settings.bufferBytes = 1
        let importer = try Importer(connection, record, at: Path(splitting: "bulk"), settings: settings)
        for number in 0..<5 { try importer.add(Array("/bulk/k\(number)".utf8), .int(Int64(number))) }
        try importer.finish()
        #expect(namespace.waitFor(8))
        _ = namespace.write(.set("a", .int(9)))
    }

    private static func expected(_ url: PostgresURL, _ namespace: LiveNamespace) throws -> [[UInt8]] {
        let connection = try LogConnection(url)
        defer { connection.close() }
        let record = try #require(try connection.namespace(id: namespace.id))
        var lines: [[UInt8]] = []
        try LogLines(connection, record).run(
            from: 1, to: record.head, time: { Timestamp.iso8601(unixMilliseconds: $0) }, { lines.append($0.json) })
        return lines
    }

    /// Reads the whole log, a few entries or parts at a time.
    private static func reading(_ calls: FailingCalls) throws -> [String] {
        try withEngines { settings, connection in
            settings.logReaders = 1
            settings.logReads.sliceEntries = 3
            settings.logReads.sliceParts = 2
            connection.connection.faults = calls
        } _: { url, engines in
            let namespace = try engines[0].namespace()
            try fill(url, namespace)
            let logs = engines[0].engine.logs
            var problems: [String] = []
            if try !ask({ logs.exists("test", $0) }) { problems.append("the namespace was not found") }
            if try ask({ logs.exists("nowhere", $0) }) { problems.append("a namespace was found that is not there") }
            let view = LogView(namespace: namespace.id, name: "test", path: .root, hasOrigins: true)
            let extent = try ask { logs.extent(of: view, $0) }
            if extent.head.seq != 9 || extent.oldest != 1 {
                problems.append("the log reaches from \(extent.oldest) to \(extent.head.seq)")
            }
            var lines: [[UInt8]] = []
            var position = LogLinePosition(LogPosition(seq: 0))
            while true {
                let slice = try ask { logs.slice(view, at: position, $0) }
                lines += slice.lines
                position = slice.end
                if slice.isAtEnd { break }
            }
            if lines != (try expected(url, namespace)) { problems.append("the reader got \(lines.count) other lines") }
            return problems
        }
    }

    @Test func everyCallOfAReader() {
        let outcome = FailingCalls.run(sample: 60, of: { $0 == "pathmirror log stream" }, Self.reading)
        #expect(outcome.problems.isEmpty, "\(outcome.problems.joined(separator: "\n"))")
        #expect(outcome.calls > 20 && outcome.fired * 10 >= outcome.runs * 7, "\(outcome)")
    }
}
