import Engine
import LogStore
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that every database call of a gateway's lease, and of the threads that load and read namespaces, may lose its
/// connection, one at a time: before the call, and after it.
@Suite struct FailingEngineCallTests {
    // MARK: Leases

    /// Runs two sessions of a gateway that save disconnect operations. One ends; then the gateway is killed, and
    /// another executes the rest.
    private static func twoGateways(_ calls: FailingCalls) throws -> [String] {
        try withDatabase { url in
            let killed = try TestEngine(url) { settings, connection in
                settings.pollMilliseconds = 50
                settings.heartbeatMilliseconds = 20
                settings.leaseExpiryMilliseconds = 60_000
                connection.connection.faults = calls
            }
            var isStopped = false
            defer { if !isStopped { killed.stop() } }
            let namespace = try killed.namespace()
            var problems: [String] = []
            let keeper = killed.engine.disconnects
            // A refused save is repeated by its client; the outcome of a save may be unknown.
            var saves: Int64 = 0
            func save(_ id: String, _ paths: [String]) -> Bool {
                eventually(seconds: 20) {
                    let outcome = Condition<SaveOutcome?>(nil)
                    saves += 1
                    let session = operations(id, paths, killed, namespace)
                    keeper.save(session, number: saves, isFirst: true) { result in
                        outcome.broadcast { $0 = result }
                    }
                    return outcome.wait(milliseconds: 20_000) { $0 } == .saved
                }
            }
            for id in ["ended", "left"] where !save(id, [id]) { problems.append("\(id) could not be saved") }
            let isDone = Condition(false)
            keeper.execute(operations("ended", ["ended"], killed, namespace)) { isDone.broadcast { $0 = true } }
            if isDone.wait(milliseconds: 20_000, until: { $0 ? true : nil }) == nil {
                problems.append("a session's end was not executed")
            }
            calls.cut(true)
            killed.stop()
            isStopped = true
            calls.cut(false)
            let next = try TestEngine(url) { settings, connection in
                settings.pollMilliseconds = 50
                settings.heartbeatMilliseconds = 20
                settings.leaseExpiryMilliseconds = 300
                connection.connection.faults = calls
            }
            defer { next.stop() }
            let there = try next.namespace()
            let watcher = try PostgresConnection(url)
            defer { watcher.close() }
            let isOver = try eventually(seconds: 20) {
                let sessions = try watcher.execute("select from pathmirror.session").rowCount
                let leases = try watcher.execute("select from pathmirror.gateway").rowCount
                return there.snapshot.root.child(Key("left")) != .null && sessions == 0 && leases == 1
            }
            if !isOver { problems.append("the sessions of a gateway that is gone were not ended") }
            for id in ["ended", "left"] {
                let count = there.snapshot.root.child(Key(id))
                if count != .int(1) { problems.append("\(id) was executed \(count) times") }
            }
            return problems
        }
    }

    private static func operations(
        _ id: String, _ paths: [String], _ engine: TestEngine, _ namespace: LiveNamespace
    ) -> DisconnectOperations {
        let operations = paths.map {
            [Change(path: Path(splitting: $0), value: .serverValue(ServerValue(.increment(.int(1)))))]
        }
        return DisconnectOperations(
            id: id, namespace: namespace, lease: engine.engine.leases.current, operations: operations, auth: .admin,
            origin: nil)
    }

    @Test func everyCallOfALease() {
        let outcome = FailingCalls.run(sample: 50, of: { $0 == "pathmirror sessions" }, Self.twoGateways)
        #expect(outcome.problems.isEmpty, "\(outcome.problems.joined(separator: "\n"))")
        #expect(outcome.calls > 20 && outcome.fired * 10 >= outcome.runs * 7, "\(outcome)")
    }

    // MARK: Loaders

    /// Runs a gateway that loads a namespace while another writes to it, and that reads old entries.
    private static func loading(_ calls: FailingCalls) throws -> [String] {
        try withEngines { url, engines in
            var problems: [String] = []
            let writer = try engines[0].namespace()
            for number in 1...40 as ClosedRange<Int64> {
                _ = writer.write(.set("/a/k\(number % 7)/\(number)", .int(number)))
            }
            let reading = try TestEngine(url) { settings, connection in
                settings.pollMilliseconds = 50
                // With several loaders, the one in use would vary from run to run.
                settings.loaders = 1
                connection.connection.faults = calls
            }
            defer { reading.stop() }
            var loaded: LiveNamespace?
            let isThere = eventually(seconds: 20) {
                loaded = try? reading.namespace()
                return loaded != nil
            }
            guard isThere, let loaded else { return ["the namespace could not be loaded"] }
            for number in 41...45 as ClosedRange<Int64> { _ = writer.write(.set("/b/\(number)", .int(number))) }
            if !loaded.waitFor(45) { problems.append("it did not come to the head") }
            let read = CollectedEntries()
            reading.engine.readLog(
                loaded.id, after: 4, through: 45, patience: 20_000, each: read.take, completion: read.finish)
            let seqs = read.wait()?.map(\.seq) ?? []
            if seqs != Array(5...45) { problems.append("old entries were read as \(seqs)") }
            let stored = try StoredState(url)
            if loaded.snapshot.root != stored.root { problems.append("the tree is not the stored one") }
            if stored.replayed != stored.root { problems.append("the stored tree is not the log's") }
            return problems
        }
    }

    @Test func everyCallOfALoader() {
        let outcome = FailingCalls.run(
            sample: 60, of: { $0.hasPrefix("pathmirror loader") || $0 == "pathmirror reader" }, Self.loading)
        #expect(outcome.problems.isEmpty, "\(outcome.problems.joined(separator: "\n"))")
        #expect(outcome.calls > 20 && outcome.fired * 10 >= outcome.runs * 7, "\(outcome)")
    }
}
