import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

/// A namespace with a batch that waits for the head's lock, which the test holds, and up to the allowed number of
/// batches sent after it.
///
/// Token 0 is the first batch's only write; `after` are the tokens of the others. All of them increment `n`, which was
/// `before`.
final class ChainedBatches {
    let url: PostgresURL
    let proxy: CuttingProxy?
    let engine: TestEngine
    let namespace: LiveNamespace
    /// The session that holds the lock in a transaction.
    let holder: PostgresConnection
    let listener = RecordingListener()
    let sink = CollectingSink()
    let before: Int64 = 41
    private(set) var after: Range<UInt64> = 1..<1

    init(
        _ url: PostgresURL, proxied: Bool = false, _ change: (inout EngineSettings) -> Void = { _ in }
    ) throws {
        self.url = url
        proxy = proxied ? try CuttingProxy(url) : nil
        engine = try TestEngine(proxy?.url ?? url) { settings, _ in
            settings.commitDeadlineMilliseconds = 20_000
            change(&settings)
        }
        namespace = try engine.namespace()
        holder = try PostgresConnection(url.withApplicationName("psql"))
        #expect(namespace.write(.increment("n"))?.committedSeq == 1)
        // There are enough writers for their batches to be divided.
        let sink = CollectingSink()
        try hold()
        namespace.submit(.increment("n"), to: sink, token: 0)
        #expect(try oneWaitsForALock(url))
        for token in 1..<40 as Range<UInt64> { namespace.submit(.increment("n"), to: sink, token: token) }
        try holder.executeScript("rollback")
        #expect(sink.all(40) != nil)
        // The last batch has ended only when no work is left.
        #expect(eventually { self.namespace.waitingWrites == 0 && self.namespace.snapshot.seq == self.before })
        #expect(engine.metrics.pipelinedBatches.current == 0)
        listener.started(namespace.subscribe(listener, at: .root), at: .root)
    }

    private func hold() throws {
        try holder.executeScript("begin; select 1 from pathmirror.namespace where name = 'test' for update")
    }

    /// Makes one batch wait for the lock.
    func begin(_ write: Write = .increment("n")) throws {
        try hold()
        namespace.submit(write, to: sink, token: 0)
        #expect(try oneWaitsForALock(url))
    }

    /// Submits enough writes that another batch is sent after the waiting ones.
    func follow(_ count: UInt64 = 30, _ write: Write = .increment("n")) {
        let new = after.upperBound..<after.upperBound + count
        after = 1..<new.upperBound
        for token in new { namespace.submit(write, to: sink, token: token) }
    }

    /// Waits until `count` batches were sent after the first.
    func waitUntilLagging(_ count: Int = 1) {
        #expect(eventually { self.engine.metrics.pipelinedBatches.current == count })
    }

    /// Checks that every write was committed once, in order, and answered so; `others` entries were written by other
    /// sessions.
    func checkAll(others: Int64 = 0, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let writes = Int64(after.count) + 1
        let outcomes = try #require(sink.all(Int(writes)), sourceLocation: sourceLocation)
        #expect(sink.repeated.isEmpty, sourceLocation: sourceLocation)
        let seqs = try (0..<after.upperBound).map { try #require(outcomes[$0]?.committedSeq) }
        #expect(zip(seqs, seqs.dropFirst()).allSatisfy { $0 < $1 }, "in order", sourceLocation: sourceLocation)
        #expect(sink.order == Array(0..<after.upperBound), sourceLocation: sourceLocation)
        try checkStored(n: before + writes, others: others, sourceLocation: sourceLocation)
        #expect(seqs.last == before + writes + others, sourceLocation: sourceLocation)
    }

    /// Checks that the stored tree equals the log's replay, the engine's tree and the listener's tree.
    func checkStored(n: Int64, others: Int64 = 0, sourceLocation: SourceLocation = #_sourceLocation) throws {
        let stored = try StoredState(url)
        #expect(stored.root[Path(splitting: "n")] == .int(n), sourceLocation: sourceLocation)
        #expect(stored.head == n + others, sourceLocation: sourceLocation)
        stored.check(equals: [namespace], sourceLocation: sourceLocation)
        #expect(try verify(url).isClean, sourceLocation: sourceLocation)
        let reported = listener.wait { $0.seq == stored.head }
        #expect(reported?.root == stored.root && reported?.mistakes == [], sourceLocation: sourceLocation)
        #expect(reported?.seqs == Array(before + 1...stored.head), sourceLocation: sourceLocation)
    }

    func stop() {
        holder.close()
        engine.stop()
        proxy?.stop()
    }
}

func withChainedBatches(
    proxied: Bool = false, _ change: (inout EngineSettings) -> Void = { _ in }, _ body: (ChainedBatches) throws -> Void
) throws {
    try withDatabase { url in
        let batches = try ChainedBatches(url, proxied: proxied, change)
        defer { batches.stop() }
        try body(batches)
    }
}
