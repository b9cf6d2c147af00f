import LogStore
import Rules
import Tree

/// Applies queued writes to a tree, one after another, and gathers what a batch needs. Pure.
///
/// A write that fails its precondition or is denied fails alone: those after it see the tree as if it had not been.
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
    /// The identity that each writer belongs to: the first one that used it.
    private(set) var writers: [String: WriterIdentity] = [:]
    /// The greatest of them by writer.
    private var greatestNumbers: [String: Int64] = [:]
    /// The names of writes that were refused. They may have been done before: then they are not to be told as refused.
    private(set) var refusedNames: Set<WriteName> = []
    /// How many writes were answered by what became of them before.
    private(set) var repeatedWrites = 0

    let timestamp: Int64
    /// Whether anybody will want to know the way from the first tree to the last. Without listeners it would only keep
    /// alive what is freed again a moment later.
    let keepsSteps: Bool
    /// The id of the batch that this becomes, if it does.
    let batchID: [UInt8]
    /// Writes that are not to be done again.
    let done: DoneWrites

    init(
        _ snapshot: Snapshot, timestamp: Int64, keepsSteps: Bool = true, batchID: [UInt8] = Batch.makeID(),
        done: DoneWrites = DoneWrites()
    ) {
        self.done = done
        self.batchID = batchID
        self.keepsSteps = keepsSteps
        root = snapshot.root
        head = snapshot.seq
        rules = snapshot.rules
        self.timestamp = timestamp
    }

    mutating func apply(_ write: Write) {
        if let name = write.name, let fate = fate(of: name) {
            // Others than whose writes these are hear nothing of them but what the rules let them do.
            if !isOwned(name.writer, by: write), let refusal = refusal(of: write) {
                if done.fate(of: name) == nil { refusedNames.insert(name) }
                return outcomes.append(refusal)
            }
            repeatedWrites += 1
            switch fate {
            case .done(let seq): return outcomes.append(.committed(seq: seq, changes: []))
            case .passedOver:
                // By a later one in this batch only: it may have been done before that.
                if done.fate(of: name) == nil { refusedNames.insert(name) }
                return outcomes.append(.refused(Self.passedOver))
            }
        }
        switch write.action {
        case .set(let path, let node): apply(write, [Change(path: path, value: node)])
        case .update(_, let changes): apply(write, ApplicationOrder.sorted(changes))
        case .rules(let set): adopt(set, write)
        case .disconnect(let claim, let operations): disconnect(claim, operations, write)
        case .recall:
            if let name = write.name { refusedNames.insert(name) }
            outcomes.append(.refused(Self.neverDone))
        }
    }

    private static let passedOver = "It was refused when it came first, and later writes of the client have been done."
    private static let neverDone = "It was not done."

    /// What became of a named write, before this batch or in it: a connection that was thought lost, and the one after it, may
    /// both have brought it.
    private func fate(of name: WriteName) -> DoneWrites.Fate? {
        if let fate = done.fate(of: name) { return fate }
        guard let greatest = greatestNumbers[name.writer], name.number <= greatest else { return nil }
        return names.contains(name) ? .done(seq: head) : .passedOver
    }

    /// Whether all that is known of a writer is this write's own identity's.
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
        switch judge(write, asked) {
        case .refused(let outcome):
            if let name = write.name { refusedNames.insert(name) }
            outcomes.append(outcome)
        case .accepted(let changes, let after): commit(write, asked, changes, before: root, after: after)
        }
    }

    /// What becomes of a write to the tree as it is.
    enum Judgement {
        case refused(WriteOutcome)
        /// With its server values filled in, and the tree after it.
        case accepted([Change], after: Node)
    }

    /// Permission comes first: nothing is compared, counted or made for whom the rules would refuse anyway, and what is
    /// answered depends on the value at the path only for whoever may read it.
    func judge(_ write: Write, _ asked: [Change]) -> Judgement {
        // One value without conditions costs no more to make than to foresee.
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
            // A transaction may have been denied only for what the client took the value to be: it is to try again, if
            // it may know that it is wrong.
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

    /// Rows that a write touches: those that it brings, and those that it replaces as far as the writer may know them.
    private func rowCount(of changes: [Change], _ auth: AuthContext) -> Int {
        changes.reduce(0) { count, change in
            count + change.value.rowCount + (mayRead(change.path, auth) ? root[change.path].rowCount : 0)
        }
    }

    /// The changes as the writer is told of them: sums only where it may read what they were counted from.
    private func told(_ asked: [Change], _ changes: [Change], _ write: Write) -> [Change] {
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

    /// New rules hold for the writes behind them, in this batch already.
    private mutating func adopt(_ set: RuleSet, _ write: Write) {
        head += 1
        rules = RulesVersion(seq: head, set: set)
        newRules.append(StoredRules(seq: head, source: set.source))
        records.append(
            Batch.Record(operation: .rules, path: .root, changes: ChangeCodec.encode([]), origin: write.origin))
        let entry = Entry(
            seq: head, committedAt: timestamp, operation: .rules, path: .root, changes: [], origin: write.origin)
        steps.append(Step(entry: entry, before: root, after: root, batch: batchID))
        outcomes.append(.committed(seq: head, changes: []))
    }

    /// The state after the writes so far.
    var snapshot: Snapshot { Snapshot(seq: head, root: root, rules: rules, batch: batchID) }

    private mutating func commit(
        _ write: Write, _ asked: [Change], _ changes: [Change], before: Node, after: Node
    ) {
        // An update of nothing is no write.
        guard !changes.isEmpty else {
            outcomes.append(.committed(seq: head, changes: []))
            return
        }
        head += 1
        if let name = write.name {
            names.insert(name)
            greatestNumbers[name.writer] = name.number
            if writers[name.writer] == nil { writers[name.writer] = write.writerIdentity }
        }
        rows.sink.seq = head
        // Each place against the tree after all of them: the trees in between would have to be made once more. A row above several
        // places may be found for each of them, and is the same one each time.
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
        outcomes.append(.committed(seq: head, changes: told(asked, changes, write)))
    }
}

/// A priority can't be given to what isn't there (reference: rtdb-protocol 4.4).
enum PriorityCheck {
    /// What is wrong with changes that are to be made together, if anything. Linear in their keys.
    static func problem(_ changes: [Change], in root: Node) -> String? {
        let homeless = changes.filter { change in
            guard change.path.namesPriority, !change.value.isNull, let parent = change.path.parent else { return false }
            return root[parent].isNull
        }
        guard !homeless.isEmpty else { return nil }
        let made = MadePlaces(changes)
        for change in homeless {
            guard let parent = change.path.parent, !made.touches(parent) else { continue }
            return "There is nothing at \(parent) that could have a priority."
        }
        return nil
    }
}

/// The places at which changes put something: a tree of their keys.
private struct MadePlaces {
    private struct Place {
        var children: [Key: Int] = [:]
        var isMade = false
    }
    private var places = [Place()]

    init(_ changes: [Change]) {
        for change in changes where !change.path.namesPriority && !change.value.isNull {
            var place = 0
            for key in change.path.keys {
                if let next = places[place].children[key] {
                    place = next
                } else {
                    places.append(Place())
                    places[place].children[key] = places.count - 1
                    place = places.count - 1
                }
            }
            places[place].isMade = true
        }
    }

    /// Whether anything is put at the path, above it or below it.
    func touches(_ path: Path) -> Bool {
        var place = 0
        for key in path.keys {
            if places[place].isMade { return true }
            guard let next = places[place].children[key] else { return false }
            place = next
        }
        // A place is only there for something at it or below it.
        return places.count > 1 || places[0].isMade
    }
}

/// Judges a large write before it is queued, so that what is refused in the end costs no committer anything.
public enum WriteTrial {
    /// What would become of a write as of a snapshot, if it would not be done; nil where it would. Any thread.
    ///
    /// Final where the snapshot is no older than the request: see `LiveNamespace.withCurrentSnapshot`.
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
