import Engine
import LogStore
import Mirrors
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// A namespace with an engine for writes, mirror administration, and SQL to inspect tables.
final class MirrorBench {
    let url: PostgresURL
    let namespace: LiveNamespace
    let operators: MirrorAdministration
    let sql: PostgresConnection
    private let announcements: Announcements

    private init(_ url: PostgresURL, _ engine: TestEngine) throws {
        self.url = url
        namespace = try engine.namespace()
        announcements = engine.engine.announcements
        operators = try MirrorAdministration(url, environment: [:])
        sql = try PostgresConnection(url)
        try sql.executeScript("set timezone = 'UTC'")
    }

    /// Runs `body` with a bench on a new database.
    static func with(_ body: (MirrorBench) throws -> Void) throws {
        try withEngines { url, engines in
            let bench = try MirrorBench(url, engines[0])
            defer {
                bench.operators.close()
                bench.sql.close()
            }
            try body(bench)
        }
    }

    // MARK: Writing

    /// Writes a value and returns the entry's seq.
    @discardableResult func set(_ path: String, _ json: String) throws -> Int64 {
        try write(Write.set(path, try node(json)))
    }

    @discardableResult func update(_ base: String, _ values: [(String, String)]) throws -> Int64 {
        try write(Write.update(base, try values.map { ($0.0, try node($0.1)) }))
    }

    @discardableResult func increment(_ path: String, by delta: Int64) throws -> Int64 {
        try write(Write.increment(path, by: delta))
    }

    @discardableResult func write(_ write: Write) throws -> Int64 {
        let outcome = namespace.write(write)
        return try #require(outcome?.committedSeq, "\(String(describing: outcome))")
    }

    // MARK: Mirrors

    /// Applies a definition. Returns the outcome of the build, or nil if none was needed.
    @discardableResult func apply(_ text: String) throws -> MirrorBuilder.Outcome? {
        try operators.execute(try operators.plan(try definition(text), namespace: "test"))
    }

    /// Applies all definitions of a text, including a mirror's histories.
    @discardableResult func applyAll(_ text: String) throws -> [MirrorBuilder.Outcome?] {
        try MirrorDefinition.read(Array(text.utf8), source: "test").map { definition in
            try operators.execute(try operators.plan(definition, namespace: "test"))
        }
    }

    func mirror(_ name: String) throws -> CatalogMirror { try operators.mirror(named: name, of: "test") }

    func status(_ name: String) throws -> MirrorStatus {
        try #require(try operators.statuses().first { $0.name == name })
    }

    /// Errors as `column of record: reason`.
    func errors(_ name: String) throws -> [String] {
        try operators.conversionErrors(try mirror(name), limit: 100_000).map(\.error).map {
            "\($0.column) of \($0.record): \($0.reason)"
        }
    }

    /// Runs `body` while a service keeps the mirrors up to date.
    func following(
        _ change: (inout MirrorSettings) -> Void = { _ in }, logger: Logger = Logger(level: .error, descriptor: -1),
        _ body: (MirrorService) throws -> Void
    ) throws {
        var settings = MirrorSettings()
        settings.pollMilliseconds = 50
        settings.takeoverMilliseconds = 20
        settings.firstRetryMilliseconds = 10
        settings.maxRetryMilliseconds = 100
        change(&settings)
        let service = MirrorService(
            url: url, settings: settings, announcements: announcements, logger: logger)
        defer { service.stop() }
        try body(service)
    }

    /// Waits until these mirrors have reached the newest entry.
    func catchUp(_ names: String...) throws {
        let isThere = try eventually {
            let statuses = try operators.statuses()
            return names.allSatisfy { name in statuses.contains { $0.name == name && $0.seq == $0.head } }
        }
        let statuses = try operators.statuses()
        #expect(isThere, "\(names) are not at the head: \(statuses)")
    }

    // MARK: Inspecting

    /// Runs statements on the database.
    func script(_ statements: String) throws { try sql.executeScript(statements) }

    /// Returns the rows of a query as PostgreSQL's texts, regardless of their types. NULL is nil.
    func rows(_ query: String) throws -> [[String?]] {
        var rows: [[String?]] = []
        try sql.copyOut("copy (\(query)) to stdout") { bytes in
            let line = String(decoding: bytes, as: UTF8.self).dropLast()
            rows.append(line.split(separator: "\t", omittingEmptySubsequences: false).map(Self.field))
        }
        return rows
    }

    /// Decodes a field of COPY's text format.
    private static func field(_ text: Substring) -> String? {
        if text == "\\N" { return nil }
        let letters: [Character: Character] = [
            "t": "\t", "n": "\n", "r": "\r", "b": "\u{8}", "f": "\u{C}", "v": "\u{B}",
        ]
        var field = ""
        var rest = text[...]
        while let next = rest.popFirst() {
            guard next == "\\", let escaped = rest.popFirst() else {
                field.append(next)
                continue
            }
            field.append(letters[escaped] ?? escaped)
        }
        return field
    }

    /// Returns the rows of a query as texts, with columns separated by a bar and NULL as an empty text.
    func lines(_ query: String) throws -> [String] {
        try rows(query).map { row in row.map { $0 ?? "" }.joined(separator: "|") }
    }

    /// Returns the problems that `log verify` finds.
    func problems() throws -> [String] {
        let log = try LogConnection(url)
        defer { log.close() }
        let record = try #require(try log.namespace(named: "test"))
        let connector = TargetConnector(url: url, settings: PostgresConnectionSettings(), environment: [:])
        let found = try MirrorProjection.all(of: record, log, connector)
        defer { for projection in found.projections { projection.close() } }
        let report = try Verification.run(log, record, projections: found.projections)
        return found.problems + report.problems.map { "\($0)" }
    }
}
