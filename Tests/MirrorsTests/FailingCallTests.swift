import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Every database call of those who build, follow and move mirrors loses its connection, one at a time: before the call, and after it.
@Suite struct FailingMirrorCallTests {
    private static let posts = #"""
        {"name": "posts", "path": "/posts/{id}", "history": ["changes"], "columns": {"title": "text", "stars": "bigint"}}
        """#

    /// Builds the mirrors of a definition, as an operator who repeats the command until it succeeds.
    private static func build(_ url: PostgresURL, _ calls: FailingCalls) -> Bool {
        eventually(seconds: 20) {
            do {
                let operators = try MirrorAdministration(url, environment: [:], faults: calls)
                defer { operators.close() }
                for definition in try MirrorDefinition.read(Array(posts.utf8), source: "test") {
                    _ = try operators.execute(try operators.plan(definition, namespace: "test"))
                }
                return true
            } catch {
                return false
            }
        }
    }

    // MARK: Building and following

    private static func following(_ calls: FailingCalls) throws -> [String] {
        var problems: [String] = []
        try MirrorBench.with { bench in
            for number in 1...6 {
                try bench.set("/posts/p\(number % 4)", #"{"title": "t\#(number)", "stars": \#(number)}"#)
            }
            guard build(bench.url, calls) else {
                problems.append("the mirrors could not be built")
                return
            }
            try bench.following({ $0.faults = calls }) { _ in
                func catchUp(_ what: String) throws {
                    let isThere = try eventually(seconds: 20) {
                        let statuses = try bench.operators.statuses()
                        return statuses.count == 2 && statuses.allSatisfy { $0.seq == $0.head }
                    }
                    guard !isThere else { return }
                    problems.append("\(what): \(try bench.operators.statuses())")
                }
                try bench.set("/posts/p1/title", #""changed""#)
                try bench.set("/posts/p2", "null")
                try catchUp("after small entries")
                try bench.update("/posts", [("p5", #"{"title": "new"}"#), ("p3/stars", "9")])
                try bench.increment("/posts/p5/stars", by: 3)
                try bench.set("/posts", #"{"x": {"title": "X", "stars": 1}, "p1": {"title": "kept"}}"#)
                try catchUp("after all records were replaced")
            }
            problems += try bench.problems()
        }
        return problems
    }

    @Test func everyCallOfMirrors() {
        let outcome = FailingCalls.run(sample: 50, Self.following)
        #expect(outcome.problems.isEmpty, "\(outcome.problems.joined(separator: "\n"))")
        #expect(outcome.calls > 40 && outcome.fired * 10 >= outcome.runs * 7, "\(outcome)")
    }

    // MARK: Moving

    /// What a database has of a namespace.
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

    /// Moves a namespace with its mirrors and a feed, as an operator who repeats the command until it succeeds.
    private static func moving(_ calls: FailingCalls) throws -> [String] {
        try withDatabase { homeURL in
            try withDatabase { otherURL in
                let engine = try TestEngine(homeURL)
                do {
                    defer { engine.stop() }
                    let namespace = try engine.namespace()
                    for number in 1...20 as ClosedRange<Int64> {
                        _ = namespace.write(.set("/posts/p\(number % 6)/stars", .int(number)))
                    }
                }
                let operators = try MirrorAdministration(homeURL, environment: [:])
                for definition in try MirrorDefinition.read(Array(posts.utf8), source: "test") {
                    _ = try operators.execute(try operators.plan(definition, namespace: "test"))
                }
                operators.close()
                let home = try LogConnection(homeURL)
                defer { home.close() }
                let other = try LogConnection(otherURL)
                defer { other.close() }
                try home.addDatabase(
                    DatabaseRecord(
                        name: "b", host: "127.0.0.1", port: "5432", databaseName: "x",
                        installation: try other.installation()))
                let before = try Contents(home)
                var last = "nothing"
                let isMoved = try eventually(seconds: 20) {
                    if try home.move(of: "test") == nil, try home.database(of: "test")?.name == "b" { return true }
                    do {
                        try move(homeURL, otherURL, calls)
                    } catch {
                        last = "\(error)"
                    }
                    return false
                }
                guard isMoved else { return ["it was not moved: \(last)"] }
                var problems: [String] = []
                if try home.namespace(named: "test") != nil { problems.append("it still lives in the home") }
                if try Contents(other) != before || before == nil { problems.append("the copy is another") }
                for (name, connection) in [("the home", home), ("b", other)] {
                    if try !connection.moves().isEmpty { problems.append("\(name) still knows of a move") }
                    let hidden = try connection.sql.execute(
                        "select from pathmirror.namespace where name like '.%'"
                    ).rowCount
                    if hidden > 0 { problems.append("\(name) has a copy that nobody works on") }
                }
                if let record = try other.namespace(named: "test") {
                    let connector = TargetConnector(url: otherURL, settings: ConnectionSettings(), environment: [:])
                    let found = try MirrorProjection.all(of: record, other, connector)
                    defer { for projection in found.projections { projection.close() } }
                    if found.projections.isEmpty { problems.append("its mirrors have not come along") }
                    problems += found.problems
                    problems += try Verification.run(other, record, projections: found.projections).problems.map {
                        "\($0)"
                    }
                }
                return problems
            }
        }
    }

    /// Moves as far as the calls let it.
    private static func move(_ homeURL: PostgresURL, _ otherURL: PostgresURL, _ calls: FailingCalls) throws {
        var settings = LogConnection.Settings()
        settings.connection.faults = calls
        var open: [LogConnection] = []
        defer { for connection in open { connection.close() } }
        func connect(_ url: PostgresURL, _ name: String) throws -> LogConnection {
            let connection = try LogConnection(url.withApplicationName("move \(name)"), settings: settings)
            open.append(connection)
            return connection
        }
        let former = try MirrorAdministration(homeURL, environment: [:], as: "move from", faults: calls)
        defer { former.close() }
        let next = try MirrorAdministration(otherURL, environment: [:], as: "move to", faults: calls)
        defer { next.close() }
        let mirrors = MirrorMover(from: former, to: next, called: "b") { _, _ in }
        defer { mirrors.close() }
        let mover = NamespaceMover(
            "test", home: try connect(homeURL, "home"),
            from: NamespaceMover.Place(name: DatabaseRecord.home, connection: try connect(homeURL, "source")),
            to: NamespaceMover.Place(name: "b", connection: try connect(otherURL, "target")), with: mirrors,
            clock: { Clock.monotonicMilliseconds }, progress: { _ in })
        try mover.run(.move)
    }

    @Test func everyCallOfAMove() {
        let outcome = FailingCalls.run(sample: 60, Self.moving)
        #expect(outcome.problems.isEmpty, "\(outcome.problems.joined(separator: "\n"))")
        #expect(outcome.calls > 60 && outcome.fired * 10 >= outcome.runs * 7, "\(outcome)")
    }
}
