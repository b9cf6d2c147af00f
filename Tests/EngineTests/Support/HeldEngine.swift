import Engine
import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// An engine whose committers are all blocked, so that writes made meanwhile wait for them together.
final class HeldEngine {
    let url: PostgresURL
    let engine: TestEngine
    private let holder: PostgresConnection
    private let names: [String]
    private let sink = CollectingSink()
    private var held: UInt64 = 0
    private var hasStopped = false

    /// - Parameters:
    ///   - way: the engine's URL of the database, if it differs from the test's.
    ///   - name: the prefix of the engine's own namespaces, which block the committers.
    init(
        _ url: PostgresURL, by way: PostgresURL? = nil, committers: Int = 1, name: String = "hold",
        _ change: (inout EngineSettings) -> Void = { _ in }
    ) throws {
        self.url = url
        engine = try TestEngine(way ?? url) { settings, _ in
            settings.committers = committers
            settings.commitDeadlineMilliseconds = 20_000
            // However busy the machine is, no namespace is left out or counts as slow.
            settings.sharedTransactionEvaluationMicroseconds = 2_000_000
            change(&settings)
        }
        names = (0..<committers).map { "\(name)\($0)" }
        holder = try PostgresConnection(url.withApplicationName("psql"))
        for name in names { _ = try engine.namespace(name).write(.increment("n")) }
    }

    /// Begins to block the committers.
    func hold() throws {
        let all = names.map { "'\($0)'" }.joined(separator: ",")
        try holder.executeScript("begin; select 1 from pathmirror.namespace where name in (\(all)) for update")
        for name in names {
            try engine.namespace(name).submit(.increment("n"), to: sink, token: held)
            held += 1
        }
        #expect(try waiting(for: holder, count: names.count))
    }

    /// Releases the committers once they have finished the work that blocked them.
    func evict() throws { try holder.executeScript("rollback") }

    /// Waits until `count` sessions wait for another session's locks, directly or indirectly.
    func waiting(for session: PostgresConnection, count: Int = 1) throws -> Bool {
        let look = try PostgresConnection(url)
        defer { look.close() }
        let waits =
            """
            with recursive behind (pid) as (
                select \(session.backendPID)
                union
                select waiting.pid from behind, pg_stat_activity as waiting
                where waiting.wait_event_type = 'Lock' and behind.pid = any (pg_blocking_pids(waiting.pid))
            )
            select count(*) - 1 from behind
            """
        return eventually { (try? look.execute(waits).int64(0, 0)) == Int64(count) }
    }

    /// Stops the engine, and keeps the session that blocks the committers.
    func stopEngine(milliseconds: Int64 = 10_000) {
        guard !hasStopped else { return }
        hasStopped = true
        engine.engine.stop(milliseconds: milliseconds)
    }

    /// Records that the engine was stopped elsewhere.
    func noteStopped() { hasStopped = true }

    func stop() {
        holder.close()
        stopEngine()
    }
}

/// Runs `body` with a blocked engine and namespaces `n0`, `n1` and so on, in each of which `n` is 1.
func withHeldEngine(
    committers: Int = 1, proxied: Bool = false, namespaces count: Int = 8,
    _ change: (inout EngineSettings) -> Void = { _ in },
    _ body: (HeldEngine, CuttingProxy?, [LiveNamespace]) throws -> Void
) throws {
    try withDatabase { url in
        let proxy = proxied ? try CuttingProxy(url) : nil
        defer { proxy?.stop() }
        let held = try HeldEngine(url, by: proxy?.url, committers: committers, change)
        defer { held.stop() }
        let namespaces = try (0..<count).map { try held.engine.namespace("n\($0)") }
        for namespace in namespaces { #expect(namespace.write(.increment("n"))?.committedSeq == 1) }
        try body(held, proxy, namespaces)
    }
}

/// Checks that `n` is `counts` in each namespace, and that its entries, its tree and the engine's state are right.
func checkCounts(
    _ url: PostgresURL, _ namespaces: [LiveNamespace], counts: Int64, sourceLocation: SourceLocation = #_sourceLocation
) throws {
    for namespace in namespaces {
        let stored = try StoredState(url, namespace.name)
        #expect(stored.root[Path(splitting: "n")] == .int(counts), sourceLocation: sourceLocation)
        stored.check(equals: [namespace], sourceLocation: sourceLocation)
        #expect(try verify(url, namespace.name).isClean, sourceLocation: sourceLocation)
    }
}

/// Submits a write to each namespace, and returns their sinks.
func submit(_ write: Write, to namespaces: [LiveNamespace], token: UInt64 = 1) -> [CollectingSink] {
    namespaces.map { namespace in
        let sink = CollectingSink()
        namespace.submit(write, to: sink, token: token)
        return sink
    }
}
