import Engine
import HTTPServer
import Synchronization
import Tree
import Wire

/// All listeners of one path, query and encoding, on whatever loop: hears of changes, encodes each once, and hands the
/// bytes to the loops that have such listeners.
final class ListenerGroup: ChangeListener {
    let key: ListenerKey
    let namespace: LiveNamespace
    private let encoder: EventEncoder

    private struct State {
        var loops: [ObjectIdentifier: (outlet: any GroupOutlet, listeners: Int)] = [:]
        /// What the query selected after the last step, for groups with a query.
        var window: Node?
    }
    private let state = Mutex(State())

    /// - Parameter hasher: has a part in the ids of its events; may be shared.
    init(_ key: ListenerKey, _ namespace: LiveNamespace, _ hasher: EventHasher = EventHasher()) {
        self.key = key
        self.namespace = namespace
        encoder = EventEncoder(key, namespace, hasher)
    }

    // MARK: Loops

    /// Counts a loop's listener in.
    func add(_ outlet: any GroupOutlet) {
        state.withLock { state in
            let count = state.loops[ObjectIdentifier(outlet)]?.listeners ?? 0
            state.loops[ObjectIdentifier(outlet)] = (outlet, count + 1)
        }
    }

    /// Counts a loop's listener out; true when the group has none left.
    func remove(_ outlet: any GroupOutlet) -> Bool {
        state.withLock { state in
            let id = ObjectIdentifier(outlet)
            if let entry = state.loops[id] {
                state.loops[id] = entry.listeners > 1 ? (outlet, entry.listeners - 1) : nil
            }
            return state.loops.isEmpty
        }
    }

    private func tell(_ news: GroupNews) {
        let id = ObjectIdentifier(self)
        for outlet in state.withLock({ $0.loops.values.map(\.outlet) }) { outlet.tell(news, of: id) }
    }

    // MARK: Changes

    func changed(_ steps: [Step]) {
        var events: [EncodedEvents.Event] = []
        for step in steps {
            guard let event = event(for: step) else { continue }
            let bytes = encoder.encode(event, seq: step.entry.seq, batch: step.batch)
            events.append(.init(seq: step.entry.seq, bytes: SharedBytes(bytes)))
        }
        if let encoded = EncodedEvents(events) { tell(.events(encoded)) }
    }

    func reset(to snapshot: Snapshot) {
        state.withLock { $0.window = nil }
        tell(.reset(snapshot))
    }

    func rulesChanged(in snapshot: Snapshot) { tell(.newRules) }

    func ended() { tell(.ended) }

    private func event(for step: Step) -> ChangeEvent? {
        guard let query = key.query else {
            return ChangeEvent(step.entry, at: key.path, before: step.before)
        }
        let selection = Selection(query, at: key.path, namespace, namespace.snapshot, isFollowed: true)
        let old = state.withLock { $0.window } ?? selection.select(from: step.before[key.path])
        let new = selection.select(from: step.after[key.path])
        state.withLock { $0.window = new }
        return ChangeEvent(from: old, to: new)
    }

    // MARK: Values

    /// The value that a listener of this group begins with.
    func value(in snapshot: Snapshot) -> Node {
        Selection(key.query, at: key.path, namespace, snapshot, isFollowed: true).select(from: snapshot.root[key.path])
    }

    /// The same as an event.
    func initialEvent(_ snapshot: Snapshot) -> SharedBytes {
        SharedBytes(
            encoder.encode(.put(.root, value(in: snapshot)), seq: snapshot.seq, batch: snapshot.batch))
    }

    /// Whether its listeners are told marks.
    var isMarked: Bool { key.encoding == .markedRealtime }

    /// The mark of the group's data as of a snapshot.
    func mark(_ snapshot: Snapshot) -> LogMark {
        LogMark(seq: snapshot.seq, resumption: ids(snapshot.rules).id(snapshot.seq, snapshot.batch))
    }

    /// What makes and reads the ids of this group's events under these rules.
    func ids(_ rules: RulesVersion) -> EventIDs { encoder.ids(rules) }
}
