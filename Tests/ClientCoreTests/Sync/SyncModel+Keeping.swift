import TestSupport
import Tree
import Wire

@testable import ClientCore

/// Restarts, transactions and increments.
extension SyncModel {
    final class Numbers {
        private var lastWrite: Int64 = 0
        private var lastRegistration: UInt64 = 0

        func write() -> WriteID {
            lastWrite += 1
            return WriteID(rawValue: lastWrite)
        }

        func registration() -> RegistrationID {
            lastRegistration += 1
            return RegistrationID(rawValue: lastRegistration)
        }
    }

    static func transactions(_ tree: SyncTree, _ numbers: Numbers) -> TransactionQueue {
        TransactionQueue(
            tree: tree, makeWriteID: { numbers.write() }, makeRegistrationID: { numbers.registration() },
            serverTime: { 1 })
    }

    // MARK: Restarting

    /// Restarts the app. Messages in flight to it are lost, and its writes are sent again.
    mutating func restart() {
        // Otherwise the store would contain half of a state.
        guard let store, !isWithinState else { return }
        log.append("restart")
        store.restart()
        let cache = CacheManager(store: store)
        self.cache = cache
        client = SyncTree(cache: cache, many: many)
        transactions = Self.transactions(client, numbers)
        let before = replays.values.map(\.registration).sorted { $0.id.rawValue < $1.id.rawValue }
        (replays, messages, requests, isWithinState, isConnected) = ([:], [], [], false, true)
        (reported, same, messageSeqs, after) = ([], [:], [], [:])
        bareListens = BareListens()
        sentTransactions = []
        outcomes = [:]
        // Data that was sent completely, and not changed by accepted writes since.
        let sent = received.filter {
            complete.contains($0.number) && $0.node != nil && !overtaken.contains($0.number)
        }
        received = []
        server.disconnect()
        if cache.pendingWrites() != pending { problems.append("other writes were kept: \(cache.pendingWrites())") }
        for write in pending {
            requests.append(.write(write))
            // There are no listeners yet.
            _ = client.apply(write, estimate: write.content)
        }
        for old in before where random.oneIn(2) {
            let registration = Registration(id: numbers.registration(), spec: old.spec, kinds: old.kinds)
            let isFirst = received.isEmpty
            listen(registration)
            guard isFirst, let kept = sent.first(where: { $0.spec == old.spec }), let node = kept.node else {
                continue
            }
            checkServed(registration, node)
        }
    }

    /// Checks that a listener from before the restart is served the data last sent to it, under the unanswered writes.
    private mutating func checkServed(_ registration: Registration, _ node: Node) {
        guard problems.isEmpty, let replay = replays[registration.id] else { return }
        let spec = registration.spec
        guard let found = cache?.cached(spec), found.isComplete else {
            return problems.append("\(Self.text(spec)) was not kept")
        }
        let kept = spec.loadsAllData ? found.node : spec.query.select(from: found.node)
        if kept != node { problems.append("\(Self.text(spec)) was kept as \(Self.text(kept)), not \(Self.text(node))") }
        guard pending.isEmpty else { return }
        problems += replay.check(node).map { "from the cache: \($0)" }
    }

    /// Checks that data with a listen that was sent completely is in the store as sent, in spite of pruning.
    mutating func checkKept() {
        if !pending.allSatisfy({ client.writes.records[$0.id] != nil }) { problems.append("a write has gone") }
        guard let cache, problems.isEmpty else { return }
        if cache.pendingWrites() != pending { problems.append("other writes are kept") }
        for listen in received where complete.contains(listen.number) && !overtaken.contains(listen.number) {
            guard let node = listen.node else { continue }
            let found = cache.cached(listen.spec)
            let kept = listen.spec.loadsAllData ? found.node : listen.spec.query.select(from: found.node)
            guard found.isComplete, kept == node else {
                problems.append("\(Self.text(listen.spec)) is kept as \(Self.text(kept)), not \(Self.text(node))")
                return
            }
        }
    }

    // MARK: Transactions

    mutating func transact() {
        let gives = random.below(4)
        let (id, effects) = transactions.begin(at: path(), appliesLocally: !random.oneIn(3)) { node in
            if gives == 0, node.isNull { return nil }
            if case .int(let number) = node { return .int(number + 1) }
            guard node.isBranch else { return .int(1) }
            return node.replacingChild(Key("b"), with: gives == 1 ? .null : .int(7))
        }
        if outcomes[id] == nil { outcomes[id] = 0 }
        follow(effects, "transaction \(id.rawValue)")
    }

    mutating func follow(_ effects: TransactionEffects, _ step: String) {
        let wasWithin = isWithinState
        follow(effects.sync, step, isOneStep: false)
        isWithinState = wasWithin
        for put in effects.puts {
            log.append("  put \(put.write.id.rawValue) \(put.write.path) \(Self.text(put.write.content))")
            requests.append(.transaction(put.write, hash: put.hash))
            sentTransactions.insert(put.write.id)
            transactionPaths[put.write.id] = put.write.path
        }
        for outcome in effects.outcomes { outcomes[outcome.id, default: 0] += 1 }
    }

    mutating func answer(_ id: WriteID, _ outcome: RequestOutcome) {
        sentTransactions.remove(id)
        if case .done = outcome, let path = transactionPaths[id] { forgetAccepted(at: path) }
        if let effects = transactions.answered(id, outcome) { follow(effects, "transaction \(id.rawValue) \(outcome)") }
    }

    mutating func checkTransactions() {
        guard problems.isEmpty else { return }
        for (id, count) in outcomes where count != 1 {
            problems.append("transaction \(id.rawValue) has ended \(count) times")
        }
        if !client.writes.records.isEmpty { problems.append("writes are left") }
    }

    // MARK: Increments

    /// Returns the expected results of an increment, where its base is known.
    func counted(_ write: PendingWrite) -> [Node?] {
        changes(of: write).map { change in
            guard change.value.hasIncrement, client.writes.records.values.allSatisfy(\.isVisible) else { return nil }
            return expected(QuerySpec(path: change.path)).map { change.value.resolved(existing: $0, timestamp: 1) }
        }
    }

    mutating func checkCounted(_ write: PendingWrite, _ counted: [Node?]) {
        guard problems.isEmpty, let record = client.writes.records[write.id] else { return }
        for (change, expected) in zip(ApplicationOrder.sorted(record.changes), counted) {
            guard let expected, change.value != expected else { continue }
            problems.append("\(write.id.rawValue) counts to \(Self.text(change.value)), not \(Self.text(expected))")
        }
    }
}
