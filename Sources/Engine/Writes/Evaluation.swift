import LogStore
import Rules
import Tree

/// Applies queued writes to a tree, one after another, and collects the contents of a batch. Pure.
///
/// A write that fails its precondition or is denied fails alone: later writes see the tree without it.
struct Evaluation {
    private(set) var root: Node
    private(set) var head: Int64
    private(set) var rules: RulesVersion
    private(set) var newRules: [StoredRules] = []
    private(set) var claims: [SessionClaim] = []
    private(set) var records: [Batch.Record] = []
    private(set) var rows = RowDiff(RowChanges())
    private(set) var steps: [Step] = []
    private(set) var outcomes: [WriteOutcome] = []
    /// The names of the writes among the records.
    private(set) var names: Set<WriteName> = []
    /// The identity that owns each writer name: the identity that used the name first.
    private(set) var writers: [String: WriterIdentity] = [:]
    /// The greatest write number of each writer in this batch.
    private var greatestNumbers: [String: Int64] = [:]
    /// The names of refused writes. They may have been executed before; in that case the refusal must not be reported.
    private(set) var refusedNames: Set<WriteName> = []
    /// The number of writes that were answered with an earlier outcome.
    private(set) var repeatedWrites = 0

    let timestamp: Int64
    /// Whether the steps from the first tree to the last are kept. Without listeners they would only keep nodes alive
    /// that can be freed a moment later.
    let keepsSteps: Bool
    /// The id of the batch that the evaluation may become.
    let batchID: [UInt8]
    /// Named writes that must not be executed again.
    let done: DoneWrites
    private(set) var messages: UpstreamMessages
    private var hasOwnRules = false

    init(
        _ snapshot: Snapshot, timestamp: Int64, keepsSteps: Bool = true, batchID: [UInt8] = Batch.makeID(),
        done: DoneWrites = DoneWrites(), messages: UpstreamMessages = UpstreamMessages()
    ) {
        self.messages = messages
        self.done = done
        self.batchID = batchID
        self.keepsSteps = keepsSteps
        root = snapshot.root
        head = snapshot.seq
        rules = snapshot.rules
        self.timestamp = timestamp
    }

    /// The right that the batch needs in a namespace that follows an upstream.
    var follow: FollowPass? { FollowPass(messages.accepted, hasOwnRules: hasOwnRules) }

    /// Whether the batch has upstream messages and writes of clients, because this gateway did not know that the
    /// namespace follows. Such a batch must not be sent: the right of the messages would commit the other writes.
    var isMixed: Bool {
        guard messages.following == .nothing, let accepted = messages.accepted else { return false }
        return Int64(records.count) != accepted.upto - accepted.after
    }

    mutating func apply(_ write: Write) {
        if let mark = write.upstream, !messages.isNext(mark) { return outcomes.append(.failed(.superseded)) }
        if let name = write.name, let fate = fate(of: name) {
            // Writes of other identities get no outcome of the named write beyond the decision of the rules.
            if !isOwned(name.writer, by: write), let refusal = refusal(of: write) {
                if done.fate(of: name) == nil { refusedNames.insert(name) }
                return outcomes.append(refusal)
            }
            repeatedWrites += 1
            switch fate {
            case .done(let seq): return outcomes.append(.committed(seq: seq, changes: []))
            case .passedOver:
                // Passed over by a later write of this batch only: the write may have been executed before that.
                if done.fate(of: name) == nil { refusedNames.insert(name) }
                return outcomes.append(.refused(Self.passedOver))
            }
        }
        switch write.action {
        case .set(let path, let node): apply(write, [Change(path: path, value: node)])
        case .update(_, let changes): apply(write, ApplicationOrder.sorted(changes))
        case .rules(let set):
            if write.upstream == nil, messages.following != .nothing {
                guard messages.following == .upstreamWithOwnRules else { return outcomes.append(.failed(.readOnly)) }
                hasOwnRules = true
            }
            adopt(set, write)
        case .disconnect(let claim, let operations): disconnect(claim, operations, write)
        case .recall:
            if let name = write.name { refusedNames.insert(name) }
            outcomes.append(.refused(Self.neverDone))
        }
    }

    private static let passedOver = "The write was refused before, and later writes of the client have been committed."
    private static let neverDone = "The write was not committed."

    /// Returns the outcome of a named write, before this batch or in it: a connection that was considered lost and the
    /// next one may both have delivered the write.
    private func fate(of name: WriteName) -> DoneWrites.Fate? {
        if let fate = done.fate(of: name) { return fate }
        guard let greatest = greatestNumbers[name.writer], name.number <= greatest else { return nil }
        return names.contains(name) ? .done(seq: head) : .passedOver
    }

    /// Whether everything known of a writer name belongs to the identity of this write.
    private func isOwned(_ writer: String, by write: Write) -> Bool {
        let identity = write.writerIdentity
        return done.knows(writer) ? done.isOwned(writer, by: identity) : writers[writer] == identity
    }

    /// Returns the reason why the rules refuse a write to the present tree; nil if they allow it.
    private func refusal(of write: Write) -> WriteOutcome? {
        let asked: [Change]
        switch write.action {
        case .set(let path, let node): asked = [Change(path: path, value: node)]
        case .update(_, let changes): asked = ApplicationOrder.sorted(changes)
        case .rules, .disconnect, .recall: return .refused(Self.neverDone)
        }
        if case .refused(let outcome) = judge(write, asked) { return outcome }
        return nil
    }

    private mutating func apply(_ write: Write, _ asked: [Change]) {
        switch judgeHere(write, asked) {
        case .refused(let outcome):
            if let name = write.name { refusedNames.insert(name) }
            if let mark = write.upstream { messages.refuse(mark) }
            outcomes.append(outcome)
        case .accepted(let changes, let after): commit(write, asked, changes, before: root, after: after)
        }
    }

    /// The decision about a write to the present tree.
    enum Judgement {
        case refused(WriteOutcome)
        /// The changes with resolved server values, and the tree after them.
        case accepted([Change], after: Node)
    }

    /// Permission comes first. For a write that the rules refuse anyway, nothing is compared, counted or built, and the
    /// answer depends on the value at the path only if the writer may read it.
    func judge(_ write: Write, _ asked: [Change]) -> Judgement {
        // Building one value without conditions costs no more than predicting the decision.
        let isWorthAsking =
            asked.count > 1 || write.expectedHash != nil || write.rowLimit != nil || write.hasServerValue
        if isWorthAsking,
            let denial = rules.set.refusal(
                of: asked.lazy.map(\.path), root: root, auth: write.auth, now: timestamp)
        {
            return .refused(.denied(denial))
        }
        if let limit = write.rowLimit, rowCount(of: asked, write.auth) > limit { return .refused(.tooLarge) }
        let changes = write.hasServerValue ? resolved(asked) : asked
        let after = root.replacing(changes)
        let decision = rules.set.mayWrite(
            changes.lazy.map(\.path), root: root, newRoot: after, auth: write.auth, now: timestamp)
        if case .denied(let denial) = decision {
            // A transaction may be denied only because the client assumed another value. The client has to try again,
            // if it may know that its value is wrong.
            let isStale = mayRead(write.path, write.auth) && !hasExpectedValue(write)
            return .refused(isStale ? .preconditionFailed(seq: head, current: root[write.path]) : .denied(denial))
        }
        guard hasExpectedValue(write) else {
            let current = mayRead(write.path, write.auth) ? root[write.path] : nil
            return .refused(.preconditionFailed(seq: head, current: current))
        }
        if let problem = PriorityCheck.problem(changes, in: root) { return .refused(.refused(problem)) }
        return .accepted(changes, after: after)
    }

    /// Refuses writes of clients to a namespace that follows an upstream, and otherwise does the same as `judge`. The
    /// rules come first: a client without permission learns nothing about the namespace.
    private func judgeHere(_ write: Write, _ asked: [Change]) -> Judgement {
        let judgement = judge(write, asked)
        // An update of nothing is no write.
        guard messages.following != .nothing, write.upstream == nil, !asked.isEmpty else { return judgement }
        if case .refused(.denied) = judgement { return judgement }
        return .refused(.failed(.readOnly))
    }

    private func resolved(_ changes: [Change]) -> [Change] {
        changes.map { change in
            Change(path: change.path, value: change.value.resolved(existing: root[change.path], timestamp: timestamp))
        }
    }

    private func hasExpectedValue(_ write: Write) -> Bool {
        write.expectedHash.map { $0 == root[write.path].hash } ?? true
    }

    private func mayRead(_ path: Path, _ auth: AuthContext) -> Bool {
        rules.set.mayRead(path, query: nil, root: root, auth: auth, now: timestamp).isAllowed
    }

    /// Returns the number of rows that a write touches: those it contains, and those it replaces as far as the writer
    /// may know them.
    private func rowCount(of changes: [Change], _ auth: AuthContext) -> Int {
        changes.reduce(0) { count, change in
            count + change.value.rowCount + (mayRead(change.path, auth) ? root[change.path].rowCount : 0)
        }
    }

    /// Returns the changes for the writer: incremented sums only if it may read the values from which they were
    /// computed.
    private func reported(_ asked: [Change], _ changes: [Change], _ write: Write) -> [Change] {
        guard write.hasServerValue, !write.auth.isAdmin else { return changes }
        return zip(asked, changes).map { asked, change in
            guard asked.value.hasIncrement, !mayRead(change.path, write.auth) else { return change }
            return asked
        }
    }

    private mutating func disconnect(_ claim: SessionClaim, _ operations: [[Change]], _ write: Write) {
        let before = outcomes
        for changes in operations {
            let action: Write.Action =
                changes.count == 1 ? .set(changes[0].path, changes[0].value) : .update(base: .root, changes)
            apply(
                Write(
                    action, operation: .disconnect, hasServerValue: write.hasServerValue, byteCount: 0,
                    auth: write.auth, origin: write.origin))
        }
        claims.append(claim)
        outcomes = before + [.committed(seq: head, changes: [])]
    }

    /// Adopts new rules, which already apply to later writes of this batch.
    private mutating func adopt(_ set: RuleSet, _ write: Write) {
        head += 1
        rules = RulesVersion(seq: head, set: set)
        newRules.append(StoredRules(seq: head, source: set.source))
        records.append(
            Batch.Record(operation: .rules, path: .root, changes: ChangeCodec.encode([]), origin: write.origin))
        let entry = Entry(
            seq: head, committedAt: timestamp, operation: .rules, path: .root, changes: [], origin: write.origin)
        steps.append(Step(entry: entry, before: root, after: root, batch: batchID))
        if let mark = write.upstream { messages.accept(mark) }
        outcomes.append(.committed(seq: head, changes: []))
    }

    /// The state after the writes so far.
    var snapshot: Snapshot { Snapshot(seq: head, root: root, rules: rules, batch: batchID) }

    private mutating func commit(
        _ write: Write, _ asked: [Change], _ changes: [Change], before: Node, after: Node
    ) {
        // An empty update creates no entry. Each message of an upstream does, because its number has to be recorded.
        guard !changes.isEmpty || write.upstream != nil else {
            outcomes.append(.committed(seq: head, changes: []))
            return
        }
        head += 1
        if let mark = write.upstream { messages.accept(mark) }
        if let name = write.name {
            names.insert(name)
            greatestNumbers[name.writer] = name.number
            if writers[name.writer] == nil { writers[name.writer] = write.writerIdentity }
        }
        rows.sink.seq = head
        // Each path is compared against the tree after all changes; the trees in between would have to be built again.
        // A row above several paths may be found for each of them, and is equal each time.
        for change in changes { rows.compare(before, after, changedAt: change.path) }
        root = after
        records.append(
            Batch.Record(
                operation: write.operation, path: write.path, changes: ChangeCodec.encode(changes),
                origin: write.origin))
        if keepsSteps {
            let entry = Entry(
                seq: head, committedAt: timestamp, operation: write.operation, path: write.path, changes: changes,
                origin: write.origin)
            steps.append(Step(entry: entry, before: before, after: after, batch: batchID))
        }
        outcomes.append(.committed(seq: head, changes: reported(asked, changes, write)))
    }
}

/// A priority cannot be set at a path without a value (reference: rtdb-protocol 4.4).
enum PriorityCheck {
    /// Returns the problem with changes that are made together, or nil. Linear in the number of their keys.
    static func problem(_ changes: [Change], in root: Node) -> String? {
        let priorities = changes.filter { change in
            guard change.path.namesPriority, !change.value.isNull, let parent = change.path.parent else { return false }
            return root[parent].isNull
        }
        guard !priorities.isEmpty else { return nil }
        let made = MadePaths(changes)
        for change in priorities {
            guard let parent = change.path.parent, !made.touches(parent) else { continue }
            return "There is no value at \(parent) that could have a priority."
        }
        return nil
    }
}

/// The paths at which changes set values: a tree of their keys.
private struct MadePaths {
    private struct Level {
        var children: [Key: Int] = [:]
        var isMade = false
    }
    private var levels = [Level()]

    init(_ changes: [Change]) {
        for change in changes where !change.path.namesPriority && !change.value.isNull {
            var current = 0
            for key in change.path.keys {
                if let next = levels[current].children[key] {
                    current = next
                } else {
                    levels.append(Level())
                    levels[current].children[key] = levels.count - 1
                    current = levels.count - 1
                }
            }
            levels[current].isMade = true
        }
    }

    /// Whether a value is set at the path, above it or below it.
    func touches(_ path: Path) -> Bool {
        var current = 0
        for key in path.keys {
            if levels[current].isMade { return true }
            guard let next = levels[current].children[key] else { return false }
            current = next
        }
        // A node of this tree exists only for a value at it or below it.
        return levels.count > 1 || levels[0].isMade
    }
}

/// Evaluates a large write before it is queued, so that a write that is refused in the end costs committers nothing.
public enum WriteTrial {
    /// Returns the outcome that refuses a write to a snapshot; nil if the write would be executed. Any thread.
    ///
    /// Final if the snapshot is no older than the request: see `LiveNamespace.withCurrentSnapshot`.
    ///
    /// - Parameter now: milliseconds since 1970.
    public static func refusal(of write: Write, on snapshot: Snapshot, now: Int64) -> WriteOutcome? {
        let asked: [Change]
        switch write.action {
        case .set(let path, let node): asked = [Change(path: path, value: node)]
        case .update(_, let changes): asked = ApplicationOrder.sorted(changes)
        case .rules, .disconnect, .recall: return nil
        }
        let evaluation = Evaluation(snapshot, timestamp: now, keepsSteps: false)
        guard case .refused(let outcome) = evaluation.judge(write, asked) else { return nil }
        return outcome
    }
}
