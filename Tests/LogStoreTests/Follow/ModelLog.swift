import LogStore
import Tree

/// A namespace's log in memory: entries with batches and kinds, pruning and rollbacks. Answers a follower's requests as
/// the database would.
struct ModelLog {
    enum Kind: CaseIterable { case plain, bulk, rules }

    struct Item: Equatable {
        let batch: [UInt8]
        let kind: Kind
    }

    /// All entries of the present history, including pruned ones. Entry 1 is first.
    private(set) var items: [Item] = []
    private(set) var retainedFrom: Int64 = 1
    /// Whether the batch of the entry before `retainedFrom` is known.
    var knowsPrunedBatch = true
    /// Damage: entries that are missing although they were never pruned.
    var holes: Set<Int64> = []
    let origin: [UInt8] = Array(repeating: 7, count: 16)
    private var batchCount = 0

    var head: Int64 { Int64(items.count) }

    /// Appends a batch of entries.
    mutating func append(_ kinds: [Kind]) {
        batchCount += 1
        let batch = [UInt8](repeating: 0, count: 8) + withUnsafeBytes(of: UInt64(batchCount).bigEndian) { Array($0) }
        items += kinds.map { Item(batch: batch, kind: $0) }
    }

    mutating func append(count: Int) { append(Array(repeating: .plain, count: count)) }

    /// Drops all entries before `seq`.
    mutating func prune(before seq: Int64) { retainedFrom = min(max(retainedFrom, seq), head + 1) }

    /// Restores the database to an older state.
    mutating func rollBack(to head: Int64) {
        items.removeLast(Int(self.head - head))
        retainedFrom = min(retainedFrom, head + 1)
    }

    func batch(_ seq: Int64) -> [UInt8] { seq == 0 ? origin : items[Int(seq) - 1].batch }

    /// The log position of the head.
    var end: LogPosition { LogPosition(seq: head, batch: batch(head)) }

    func history(at seq: Int64) -> HistoryRecord {
        let isThere = seq >= retainedFrom && seq <= head && !holes.contains(seq)
        return HistoryRecord(
            head: head, headBatch: batch(head), retainedFrom: retainedFrom,
            prunedBatch: knowsPrunedBatch && retainedFrom > 1 ? batch(retainedFrom - 1) : nil, origin: origin,
            batch: isThere && seq > 0 ? batch(seq) : nil)
    }

    func entries(_ request: FollowerMachine.PageRequest) -> [LoggedEntry] {
        let first = max(request.after + 1, retainedFrom)
        let last = min(request.through, head)
        guard first <= last else { return [] }
        return (first...last).filter { !holes.contains($0) }.prefix(request.entries).map(logged)
    }

    func logged(_ seq: Int64) -> LoggedEntry {
        let item = items[Int(seq) - 1]
        let entry = Entry(
            seq: seq, committedAt: seq, operation: item.kind == .rules ? .rules : .set, path: .root,
            changes: [Change(path: .root, value: .int(seq))], isBulk: item.kind == .bulk)
        return LoggedEntry(entry: entry, batchID: item.batch)
    }
}

/// Follows a model's log like a user of `FollowerMachine`: keeps the entries, and loads if instructed.
struct ModelReader {
    var machine: FollowerMachine
    /// The reader's copy of the log. Entry 1 is first.
    var state: [ModelLog.Item] = []
    var loads = 0
    /// Violations of the follower's guarantees, as sentences.
    var faults: [String] = []
    private var now: Int64 = 1_000_000

    init(_ settings: FollowerMachine.Settings, at cursor: LogPosition = LogPosition(seq: 0)) {
        machine = FollowerMachine(at: cursor, settings: settings)
    }

    /// Executes the machine's next request. Returns false if the machine waits or is at the end.
    mutating func step(_ log: ModelLog, now: Int64 = 0, readFails: Bool = false) -> Bool {
        switch machine.next(at: now) {
        case .wait: return false
        case .read(let request):
            guard !readFails else { return true }
            do throws(LogStoreError) {
                try machine.received(
                    history: request.withHistory ? log.history(at: request.after) : nil, entries: log.entries(request))
            } catch {
                faults.append("\(error)")
            }
            return true
        case .take(let event): return take(event, log)
        }
    }

    private mutating func take(_ event: LogEvent, _ log: ModelLog) -> Bool {
        switch event {
        case .entries(let entries):
            if entries.isEmpty { faults.append("an event without entries") }
            for logged in entries { add(logged, machine.settings.separatesKinds ? .plain : nil) }
        case .bulk(let logged): add(logged, .bulk)
        case .rules(let logged): add(logged, .rules)
        case .missing(let range, _):
            if range.lowerBound != Int64(state.count) + 1 { faults.append("\(range) is missing after \(state.count)") }
            load(log)
        case .rolledBack: load(log)
        case .end: return false
        }
        return true
    }

    private mutating func add(_ logged: LoggedEntry, _ kind: ModelLog.Kind?) {
        if logged.entry.seq != Int64(state.count) + 1 {
            faults.append("entry \(logged.entry.seq) after \(state.count)")
        }
        let own: ModelLog.Kind =
            logged.entry.isBulk ? .bulk : logged.entry.operation == .rules ? .rules : .plain
        if let kind, kind != own { faults.append("entry \(logged.entry.seq) comes as \(kind)") }
        state.append(ModelLog.Item(batch: logged.batchID, kind: own))
    }

    private mutating func load(_ log: ModelLog) {
        loads += 1
        state = log.items
        machine.restart(at: log.end)
    }

    /// Steps until the machine waits. Returns false if that does not happen.
    mutating func run(_ log: ModelLog, now: Int64 = 0) -> Bool {
        for _ in 0..<10_000 where !step(log, now: now) { return true }
        return false
    }

    /// Advances the clock until a poll finds nothing new. Returns false if that does not happen.
    mutating func settle(_ log: ModelLog) -> Bool {
        (1...4).allSatisfy { _ in
            now += 1_000
            return run(log, now: now)
        }
    }
}
