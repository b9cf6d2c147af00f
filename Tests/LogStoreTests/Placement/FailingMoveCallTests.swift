import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks moves in which each database call in turn loses its connection, before or after the call.
@Suite struct FailingMoveCallTests {
    /// The contents of a namespace in a database.
    private struct Contents: Equatable {
        let head: Int64
        let root: Node
        let entries: [Entry]

        init?(_ connection: LogConnection) throws {
            guard let record = try connection.namespace(named: "test") else { return nil }
            head = record.head
            root = try connection.loadTree(record.id).root
            entries = try connection.read(record.id, after: 0).map(\.entry)
        }

        static func == (left: Contents, right: Contents) -> Bool {
            left.head == right.head && left.root == right.root && left.entries.map(\.seq) == right.entries.map(\.seq)
                && left.entries.map(\.changes) == right.entries.map(\.changes)
        }
    }

    /// Moves a namespace like an operator who repeats the command until it succeeds. Returns the problems found.
    private static func moving(_ calls: FailingCalls) throws -> [String] {
        try withDatabase { primaryURL in
            try withDatabase { otherURL in
                let engine = try TestEngine(primaryURL)
                do {
                    defer { engine.stop() }
                    let namespace = try engine.namespace()
                    for number in 1...20 as ClosedRange<Int64> {
                        _ = namespace.write(.set("/posts/p\(number % 6)/stars", .int(number)))
                    }
                }
                let primary = try LogConnection(primaryURL)
                defer { primary.close() }
                let other = try LogConnection(otherURL)
                defer { other.close() }
                try primary.addDatabase(
                    DatabaseRecord(
                        name: "b", host: "127.0.0.1", port: "5432", databaseName: "x",
                        installation: try other.installation()))
                let before = try Contents(primary)
                var last = "nothing"
                let isMoved = try eventually(seconds: 20) {
                    if try primary.move(of: "test") == nil, try primary.database(of: "test")?.name == "b" {
                        return true
                    }
                    do {
                        try move(primaryURL, otherURL, calls)
                    } catch {
                        last = "\(error)"
                    }
                    return false
                }
                guard isMoved else { return ["it was not moved: \(last)"] }
                var problems: [String] = []
                if try primary.namespace(named: "test") != nil { problems.append("it still lives in the home") }
                if try Contents(other) != before || before == nil { problems.append("the copy is another") }
                for (name, connection) in [("the home", primary), ("b", other)] {
                    if try !connection.moves().isEmpty { problems.append("\(name) still knows of a move") }
                    let hidden = try connection.sql.execute(
                        "select from pathmirror.namespace where name like '.%'"
                    ).rowCount
                    if hidden > 0 { problems.append("\(name) has a copy that nobody works on") }
                }
                return problems
            }
        }
    }

    /// Runs a move until it ends or a call fails.
    private static func move(_ primaryURL: PostgresURL, _ otherURL: PostgresURL, _ calls: FailingCalls) throws {
        var settings = LogConnection.Settings()
        settings.connection.faults = calls
        var open: [LogConnection] = []
        defer { for connection in open { connection.close() } }
        func connect(_ url: PostgresURL, _ name: String) throws -> LogConnection {
            let connection = try LogConnection(url.withApplicationName("move \(name)"), settings: settings)
            open.append(connection)
            return connection
        }
        let mover = NamespaceMover(
            "test", primary: try connect(primaryURL, "home"),
            from: NamespaceMover.Database(name: DatabaseRecord.primary, connection: try connect(primaryURL, "source")),
            to: NamespaceMover.Database(name: "b", connection: try connect(otherURL, "target")),
            clock: { Clock.monotonicMilliseconds }, progress: { _ in })
        try mover.run(.move)
    }

    @Test func everyCallOfAMove() {
        let outcome = FailingCalls.run(sample: 60, Self.moving)
        #expect(outcome.problems.isEmpty, "\(outcome.problems.joined(separator: "\n"))")
        #expect(outcome.calls > 30 && outcome.fired * 10 >= outcome.runs * 7, "\(outcome)")
    }
}
