import Engine
import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// An engine whose committers are all kept waiting, so that what is written meanwhile waits for them together.
final class HeldEngine {
    let url: PostgresURL
    let engine: TestEngine
    private let holder: PostgresConnection
    private let names: [String]
    private let sink = CollectingSink()
    private var held: UInt64 = 0
    private var hasStopped = false

    /// - Parameters:
    ///   - way: how the engine reaches the database, where that is another way than the test's own.
    ///   - name: what its own namespaces are called, which keep the committers.
    init(
        _ url: PostgresURL, by way: PostgresURL? = nil, committers: Int = 1, name: String = "hold",
        _ change: (inout EngineSettings) -> Void = { _ in }
    ) throws {
        self.url = url
        engine = try TestEngine(way ?? url) { settings, _ in
            settings.committers = committers
            settings.commitDeadlineMilliseconds = 20_000
            // However busy the machine is, nobody is left behind or taken for slow.
            settings.jointEvaluationMicroseconds = 2_000_000
            change(&settings)
        }
        names = (0..<committers).map { "\(name)\($0)" }
        holder = try PostgresConnection(url.withApplicationName("psql"))
        for name in names { _ = try engine.namespace(name).write(.increment("n")) }
    }

    /// Begins to keep the committers waiting.
    func hold() throws {
        let all = names.map { "'\($0)'" }.joined(separator: ",")
        try holder.executeScript("begin; select 1 from pathmirror.namespace where name in (\(all)) for update")
        for name in names {
            try engine.namespace(name).submit(.increment("n"), to: sink, token: held)
            held += 1
        }
        #expect(try waiting(for: holder, count: names.count))
    }

    /// Lets the committers go on, when they have ended what they were kept with.
    func letGo() throws { try holder.executeScript("rollback") }

    /// Waits until so many sessions wait for another one's locks, directly or behind others.
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

    /// Ends the engine alone.
    func stopEngine(milliseconds: Int64 = 10_000) {
        guard !hasStopped else { return }
        hasStopped = true
        engine.engine.stop(milliseconds: milliseconds)
    }

    /// Somebody else has ended it.
    func noteStopped() { hasStopped = true }

    func stop() {
        holder.close()
        stopEngine()
    }
}

/// Runs `body` with such an engine and namespaces `n0`, `n1` and so on, in each of which `n` is 1.
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

/// Each namespace has `n` that often, its entries and its tree are right, and the engine has them.
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

/// Submits a write to each, and returns their sinks.
func submit(_ write: Write, to namespaces: [LiveNamespace], token: UInt64 = 1) -> [CollectingSink] {
    namespaces.map { namespace in
        let sink = CollectingSink()
        namespace.submit(write, to: sink, token: token)
        return sink
    }
}
