import LogStore
import Postgres
import Retention
import Runtime
import TestSupport
import Testing
import Tree

/// Checks retention runs of a gateway in which each database call in turn loses its connection, before or after the
/// call.
@Suite struct FailingRetentionCallTests {
    private static func shortening(_ calls: FailingCalls) throws -> [String] {
        try withDatabase { url in
            try shareLog(upTo: 10, url)
            var session = LogConnection.Settings()
            session.entriesPerPartition = 20
            let connection = try LogConnection(url, settings: session)
            defer { connection.close() }
            let namespace = try connection.make()
            var writer = BatchWriter(namespace)
            for _ in 0..<70 {
                _ = try connection.commit(writer.set("k/\(writer.head % 7)", .int(writer.head)))
                if writer.head == 20 || writer.head == 45 {
                    _ = try connection.takeSnapshot(namespace.id, for: .retention)
                }
            }
            try connection.setRetention(RetentionPolicy(keeping: .seconds(20 * 86_400)), of: nil)
            try connection.sql.executeScript(
                """
                update pathmirror.log set committed_at = now() - (70 - seq) * interval '1 day';
                update pathmirror.snapshot set created_at = now() - (70 - seq) * interval '1 day';
                insert into pathmirror.cursor (namespace_id, kind, name, seq) values (\(namespace.id), 'reader', 'slow', 27)
                """)
            session.connection.faults = calls
            var settings = RetentionSettings()
            settings.intervalMilliseconds = 20
            let service = RetentionService(
                url: url, settings: settings, connectionSettings: session,
                logger: Logger(level: .error, descriptor: -1))
            defer { service.stop() }
            var problems: [String] = []
            func isShortened(to seq: Int64, waitingFor reader: String?) throws -> Bool {
                try eventually(seconds: 20) {
                    let from = try connection.namespace(id: namespace.id)?.retainedFrom ?? 0
                    if reader != nil, from > 28 { problems.append("the log begins with \(from), past a reader at 27") }
                    let run = try connection.retentionRun(of: namespace.id)
                    return from == seq && run != nil && run?.message == nil && run?.waitsFor == reader
                }
            }
            if try !isShortened(to: 21, waitingFor: "reader slow") {
                problems.append("it was not shortened to a reader")
            }
            try connection.sql.executeScript("delete from pathmirror.cursor")
            if try !isShortened(to: 46, waitingFor: nil) { problems.append("it was not shortened") }
            // The pieces are dropped one after another.
            let isDropped = try eventually(seconds: 20) {
                try count(connection, "select min(seq) from pathmirror.log where namespace_id = \(namespace.id)") == 30
            }
            if !isDropped { problems.append("not all was dropped") }
            let record = try connection.namespace(named: "test") ?? namespace
            problems += try Verification.run(connection, record).problems.map { "\($0)" }
            if try connection.loadTree(namespace.id).root != writer.root { problems.append("the tree is another") }
            return problems
        }
    }

    @Test func everyCallOfAKeeper() {
        let outcome = FailingCalls.run(sample: 50, Self.shortening)
        #expect(outcome.problems.isEmpty, "\(outcome.problems.joined(separator: "\n"))")
        #expect(outcome.calls > 20 && outcome.fired * 10 >= outcome.runs * 7, "\(outcome)")
    }
}
