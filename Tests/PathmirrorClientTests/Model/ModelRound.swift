import ClientCore
import ClientSupport
import Foundation
import TestSupport
import Tree

@testable import PathmirrorClient

/// A round of the model test: two apps and an administrator write, read, listen, lose their connections and are
/// restarted at random, below a path of their own.
actor ModelRound {
    struct Plan: Sendable {
        let seed: UInt64
        /// The number of steps. `settles`: how often everything is awaited and compared.
        var steps = 120
        var settles = 2
        /// Whether the network fails.
        var hasFaults = false
    }

    let plan: Plan
    let administrator: Administrator
    let base: Path
    let journal = WriteJournal()
    private let folder: String
    var random: SeededGenerator
    var clients: [ModelClient] = []
    var problems: [String] = []
    /// The steps done, for a failure's message.
    var story: [String] = []
    var lastPair = 0
    /// The state when the first problem was found.
    private var evidence: [String] = []
    var figures = ModelFigures()
    private var head: Int64 = 0
    private var barrier = 0

    init(_ plan: Plan, port: UInt16) {
        self.plan = plan
        administrator = Administrator(port: port)
        random = SeededGenerator(seed: plan.seed)
        // A path is not used twice, however often a seed is run.
        base = Path([Key("model"), Key("r\(plan.seed)-\(UInt32.random(in: 0 ... .max))")])
        folder = TemporaryFolder.path("client-model")
    }

    /// Runs the round. Returns the problems.
    func run() async throws -> [String] {
        defer { TemporaryFolder.remove(folder) }
        head = try administrator.head()
        let proxies = try (0..<2).map { _ in plan.hasFaults ? try FaultProxy(target: administrator.port) : nil }
        defer { for proxy in proxies { proxy?.stop() } }
        for number in 0..<2 {
            let isPersistent = number == 0 || random.oneIn(3)
            clients.append(
                ModelClient(
                    number: number, round: base, port: administrator.port, proxy: proxies[number],
                    directory: isPersistent ? "\(folder)/\(number)" : nil,
                    cacheBytes: random.oneIn(2) ? 2_000 : 10 << 20, journal: journal))
        }
        for _ in 0..<plan.settles where problems.isEmpty {
            for _ in 0..<(plan.steps / plan.settles) { try await step() }
            try await settle()
        }
        try await end()
        if problems.isEmpty { return [] }
        return problems + ["what was done:"] + story + (evidence.isEmpty ? logs : evidence)
    }

    private var logs: [String] {
        let lines = (try? administrator.log(after: head, at: base)) ?? []
        let entries = lines.suffix(400).map { "\($0.seq) \($0.operation) \($0.isByAdministrator) \($0.content)" }
        let items = journal.items.map { "\($0.client) \($0.what.prefix(150)): \($0.outcome)" }
        return ["the writes:"] + items + ["the log:"] + entries
            + clients.flatMap { client in
                client.watches.filter { watch in problems.contains { $0.contains("\(watch.watch)") } }
                    .flatMap { ["events of client \(client.number), \($0.watch):"] + $0.watch.log }
            }
    }

    /// Counts a client's listeners, before they end.
    func note(_ client: ModelClient) {
        figures.listeners += client.watches.count
        figures.events += client.watches.reduce(0) { $0 + $1.watch.eventCount }
    }

    // MARK: Comparing

    /// Lets everything arrive, then compares every listener with the server's data.
    private func settle() async throws {
        for client in clients {
            calm(client.proxy)
            client.setOffline(false)
        }
        story.append("settles")
        barrier += 1
        for client in clients {
            // The server answers this write after all earlier requests of this client.
            let sign = Int64(client.number)
            let reported = Recorder<String>()
            client.reference(base.appending(ModelPaths.marks)).child("b\(sign)").setValue(barrier) { error, _ in
                reported.record(error.map { "\($0)" } ?? "")
            }
            try await wait("client \(client.number) is answered") { !reported.events.isEmpty }
            if reported.events != [""] {
                problems.append("the barrier of client \(client.number) fails: \(reported.events)")
            }
        }
        try await wait("everybody is answered: \(journal.pending().map(\.what))") { journal.pending().isEmpty }
        try administrator.set(base.appending(ModelPaths.barrier), .int(Int64(barrier)))
        await compare()
        try await ask()
    }

    private func compare() async {
        var found: [String] = []
        for _ in 0..<1_500 {
            do { found = try differences() } catch { found = ["\(error)"] }
            if found.isEmpty { break }
            try? await Task.sleep(for: .milliseconds(20))
        }
        problems += found
        problems += clients.flatMap { $0.watches.flatMap(\.watch.problems) }
        if !problems.isEmpty, evidence.isEmpty { evidence = logs }
    }

    private func differences() throws -> [String] {
        let whole = try administrator.value(at: base)
        return clients.flatMap { client in
            client.watches.flatMap { watch, _, _ -> [String] in
                guard base.contains(watch.path) else {
                    return watch.error?.code == .permissionDenied && watch.eventCount == 0
                        ? [] : ["\(watch) of client \(client.number) was not refused"]
                }
                return watch.check(whole[watch.path.relative(to: base)])
                    .map { "\($0) (client \(client.number))" }
            }
        }
    }

    /// Compares gets of some queries with the server's data, while no client writes.
    private func ask() async throws {
        guard problems.isEmpty else { return }
        let whole = try administrator.value(at: base)
        for client in clients {
            for _ in 0..<3 {
                let at = randomListenPath()
                var query = randomQuery(at: at)
                // Without an index for this order the server answers no get.
                if query.order == .child("b/c") { query = PlainQuery() }
                let node = try await query.query(at: client.reference(at)).getData().node
                let expected = query.shown(of: whole[at.relative(to: base)])
                let same = query.selectsAll ? node == expected : node.withoutPriority == expected
                if !same {
                    problems.append(
                        "getData at \(at) \(query) gives \(PlainText.json(node)), not \(PlainText.json(expected))")
                }
            }
        }
    }

    /// Ends everything, and compares the log.
    private func end() async throws {
        for client in clients {
            calm(client.proxy)
            note(client)
        }
        let before = Set(
            journal.items.filter { $0.kind == .onDisconnect && $0.outcome == .done && !$0.isRolledBack }.map(\.identity)
        )
        for client in clients { problems += await client.end(startsAgain: false) }
        for client in clients { client.proxy?.cutAll() }
        var log: [LogLine] = []
        try await wait("what was to be done at the end of connections is done") {
            log = try administrator.log(after: head, at: base)
            let text = log.map(\.content).joined(separator: "\n")
            return before.allSatisfy { text.contains($0) }
        }
        figures.writes = journal.items.count
        figures.entries = log.count
        figures.losses = clients.reduce(0) { $0 + $1.losses }
        problems += journal.check(log, losses: clients.map(\.losses))
        try await checkSums()
    }

    /// Replays the log into a plain tree, and checks the counters.
    private func checkSums() async throws {
        var (replayed, whole) = (Node.null, Node.null)
        var log: [LogLine] = []
        // Disconnect operations that are not checked may still be executed.
        try await wait("the log makes what the server has") {
            log = try administrator.log(after: head, at: base)
            replayed = replay(log)
            whole = try administrator.value(at: base)
            return replayed == whole
        }
        if replayed != whole {
            problems.append("the log makes \(PlainText.json(replayed)), the server has \(PlainText.json(whole))")
        }
        let hits = base.appending(ModelPaths.hits)
        let increments = log.filter { line in line.changes.contains { $0.path == hits } }.count
        if whole.child(ModelPaths.hits) != (increments == 0 ? .null : .int(Int64(increments))) {
            problems.append("\(increments) increments make \(PlainText.json(whole.child(ModelPaths.hits)))")
        }
        let counts = journal.items.filter { $0.identity == "count" }
        let least = counts.filter { $0.outcome == .done }.count
        let most = least + counts.filter { $0.outcome == .unknown || $0.outcome == .pending }.count
        let count = whole.child(ModelPaths.count)
        if case .int(let value) = count, Int(value) >= least, Int(value) <= most { return }
        if !count.isNull || least > 0 {
            problems.append("\(least) to \(most) transactions have counted to \(PlainText.json(count))")
        }
    }

    private func replay(_ log: [LogLine]) -> Node {
        var tree = Node.null
        for line in log {
            for isSecond in [false, true] {
                for (path, node) in line.changes where (node.isNull || path.namesPriority) == isSecond {
                    if base.contains(path) { tree = tree.replacing(path.relative(to: base), with: node) }
                }
            }
        }
        return tree
    }

    /// Waits; a timeout is recorded as a problem, not thrown as an error of the test itself.
    func wait(_ what: String, _ condition: () throws -> Bool) async throws {
        do {
            try await until(what, condition)
        } catch let late as Late {
            problems.append("\(late)")
        }
    }
}
