import Engine
import Glibc
import LogStore
import Mirrors
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that each table equals the projection of the tree at its cursor, for random writes and failures of gateways.
/// Applies random mirrors, writes, restarts, lost connections, imports and changed definitions to a real PostgreSQL,
/// and compares with `PlainProjection` of the tree that the log gives.
@Suite(.serialized) struct ProjectionProperties {
    static var seeds: [UInt64] {
        if let text = getenv("PATHMIRROR_MIRROR_SEEDS").map({ String(cString: $0) }) {
            return text.split(separator: ",").compactMap { UInt64($0) }
        }
        return Array(1...6)
    }

    @Test(arguments: seeds) func tablesEqualTheProjectionAtTheirCursors(seed: UInt64) throws {
        var generator = MirrorGenerator(seed: seed)
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            let log = try LogConnection(url)
            defer { log.close() }
            let trees = LogTrees()
            let operators = try MirrorAdministration(url, environment: [:])
            defer { operators.close() }
            var services = (0..<2).map { _ in makeService(url, engines[0]) }
            defer { for service in services { service.stop() } }
            var count = 0
            for _ in 0..<40 {
                let sink = CollectingSink()
                let number = 1 + generator.tree.random.below(12)
                for token in 0..<number { namespace.submit(generator.write(), to: sink, token: UInt64(token)) }
                switch generator.tree.random.below(12) {
                case 0, 1:
                    // Names are reused, so definitions change under load.
                    let definition = try generator.definition("m\(generator.tree.random.below(3))")
                    _ = try operators.execute(try operators.plan(definition, namespace: "test"))
                case 2:
                    services.removeFirst().stop()
                    services.append(makeService(url, engines[0]))
                case 3: try loseConnections(log.sql)
                case 4: try RandomLoad.load(url, &generator)
                case 5:
                    for mirror in try operators.mirrors() where generator.tree.random.oneIn(2) {
                        try operators.setPaused(mirror, !mirror.isPaused)
                    }
                case 6:
                    if let mirror = try operators.mirrors().first { _ = try operators.retryConversionErrors(mirror) }
                case 7:
                    let mirrors = try operators.mirrors()
                    if !mirrors.isEmpty { _ = try operators.rebuild(generator.tree.random.pick(mirrors)) }
                case 8:
                    let mirrors = try operators.mirrors()
                    guard !mirrors.isEmpty else { break }
                    let first = Int64(1 + generator.tree.random.below(max(1, count)))
                    _ = try operators.applyAgain(generator.tree.random.pick(mirrors), from: first)
                default: break
                }
                #expect(sink.all(number)?.count == number)
                count += number
                try check(log, operators, trees)
            }
            for mirror in try operators.mirrors() { try operators.setPaused(mirror, false) }
            let isThere = try eventually(seconds: 60) {
                try operators.statuses().allSatisfy { $0.seq == $0.head }
            }
            let statuses = try operators.statuses()
            #expect(isThere, "the mirrors never came to the head: \(statuses)")
            try check(log, operators, trees)
            try verify(log, url)
        }
    }

    private func makeService(_ url: PostgresURL, _ engine: TestEngine) -> MirrorService {
        var settings = MirrorSettings()
        settings.pollMilliseconds = 100
        settings.takeoverMilliseconds = 50
        settings.firstRetryMilliseconds = 10
        settings.maxRetryMilliseconds = 200
        settings.entriesAtOnce = 7
        return MirrorService(
            url: url, settings: settings, announcements: engine.engine.announcements,
            logger: Logger(level: .error, descriptor: -1))
    }

    private func check(_ log: LogConnection, _ operators: MirrorAdministration, _ trees: LogTrees) throws {
        for mirror in try operators.mirrors() {
            guard let stored = try StoredProjection(log, mirror, trees) else { continue }
            let difference = stored.difference
            #expect(difference == nil, "\(difference ?? "")")
        }
    }

    /// Checks that `log verify` agrees, and detects a missing row.
    private func verify(_ log: LogConnection, _ url: PostgresURL) throws {
        let record = try #require(try log.namespace(named: "test"))
        let connector = TargetConnector(url: url, settings: PostgresConnectionSettings(), environment: [:])
        let found = try MirrorProjection.all(of: record, log, connector)
        let clean = try Verification.run(log, record, projections: found.projections)
        #expect(clean.isClean && found.problems.isEmpty, "\(clean.problems) \(found.problems)")
        #expect(clean.projections.count == found.projections.count)
        for mirror in try log.catalogMirrors() {
            let table =
                "\(quotedIdentifier(mirror.definition.schema)).\(quotedIdentifier(mirror.definition.table))"
            let gone = try log.sql.execute(
                "delete from \(table) where ctid = (select ctid from \(table) limit 1)")
            guard gone.affectedRows == 1 else { continue }
            let damaged = try Verification.run(log, record, projections: found.projections)
            #expect(damaged.problems.count == 1, "\(damaged.problems)")
            return
        }
    }

    private func loseConnections(_ connection: PostgresConnection) throws {
        _ = try connection.execute(
            """
            select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and application_name in ('pathmirror mirror reader', 'pathmirror mirror writer')
            """)
    }
}
