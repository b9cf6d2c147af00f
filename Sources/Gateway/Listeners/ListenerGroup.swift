import Engine
import HTTPServer
import Synchronization
import Tree
import Wire

/// All listeners of one path, query and encoding, on all loops. The group receives changes, encodes each once, and
/// sends the bytes to the loops that have such listeners.
final class ListenerGroup: ChangeListener {
    let key: ListenerKey
    let namespace: LiveNamespace
    private let encoder: EventEncoder

    private struct State {
        var loops: [ObjectIdentifier: (outlet: any GroupReceiver, listeners: Int)] = [:]
        /// The query's result after the last step, for groups with a query.
        var window: Node?
    }
    private let state = Mutex(State())

    /// - Parameter hasher: computes hashes for the ids of the group's events; may be shared.
    init(_ key: ListenerKey, _ namespace: LiveNamespace, _ hasher: EventHasher = EventHasher()) {
        self.key = key
        self.namespace = namespace
        encoder = EventEncoder(key, namespace, hasher)
    }

    // MARK: Loops

    /// Registers one more listener of a loop.
    func add(_ outlet: any GroupReceiver) {
        state.withLock { state in
            let count = state.loops[ObjectIdentifier(outlet)]?.listeners ?? 0
            state.loops[ObjectIdentifier(outlet)] = (outlet, count + 1)
        }
    }

    /// Removes one listener of a loop; returns true if the group has none left.
    func remove(_ outlet: any GroupReceiver) -> Bool {
        state.withLock { state in
            let id = ObjectIdentifier(outlet)
            if let entry = state.loops[id] {
                state.loops[id] = entry.listeners > 1 ? (outlet, entry.listeners - 1) : nil
            }
            return state.loops.isEmpty
        }
    }

    private func notify(_ news: GroupMessage) {
        let id = ObjectIdentifier(self)
        for outlet in state.withLock({ $0.loops.values.map(\.outlet) }) { outlet.notify(news, of: id) }
    }

    // MARK: Changes

    func changed(_ steps: [Step]) {
        var events: [EncodedEvents.Event] = []
        for step in steps {
            guard let event = event(for: step) else { continue }
            let bytes = encoder.encode(event, seq: step.entry.seq, batch: step.batch)
            events.append(.init(seq: step.entry.seq, bytes: SharedBytes(bytes)))
        }
        if let encoded = EncodedEvents(events) { notify(.events(encoded)) }
    }

    func reset(to snapshot: Snapshot) {
        state.withLock { $0.window = nil }
        notify(.reset(snapshot))
    }

    func rulesChanged(in snapshot: Snapshot) { notify(.newRules) }

    func ended() { notify(.ended) }

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

    /// Returns the value that a listener of this group begins with.
    func value(in snapshot: Snapshot) -> Node {
        Selection(key.query, at: key.path, namespace, snapshot, isFollowed: true).select(from: snapshot.root[key.path])
    }

    /// Returns the initial value as an event.
    func initialEvent(_ snapshot: Snapshot) -> SharedBytes {
        SharedBytes(
            encoder.encode(.put(.root, value(in: snapshot)), seq: snapshot.seq, batch: snapshot.batch))
    }

    /// Whether its listeners receive marks.
    var isMarked: Bool { key.encoding == .markedRealtime }

    /// Returns the mark of the group's data at a snapshot.
    func mark(_ snapshot: Snapshot) -> LogMark {
        LogMark(seq: snapshot.seq, resumption: ids(snapshot.rules).id(snapshot.seq, snapshot.batch))
    }

    /// Returns the event ids of this group under the given rules.
    func ids(_ rules: RulesVersion) -> EventIDs { encoder.ids(rules) }
}

/// The properties that listeners must share to receive the same bytes.
struct ListenerKey: Hashable, Sendable {
    enum Encoding: Hashable, Sendable {
        /// Server-sent events, with ids if the client requests them.
        case events(JSONForm, withIDs: Bool)
        /// Pushes of the realtime protocol without their end, which contains each listen's own tag.
        case realtime
        /// Pushes with marks, for clients that requested the gateway's extension.
        case markedRealtime
    }

    let namespace: NamespaceKey
    let path: Path
    let query: Query?
    let encoding: Encoding
}

/// A group's message to its listeners.
enum GroupMessage: Sendable {
    case events(EncodedEvents)
    /// The changes between the last event and the snapshot are unknown.
    case reset(Snapshot)
    /// The namespace has new rules, which may change the access of its readers.
    case newRules
    /// The namespace was removed, or another one has its name.
    case ended
}

/// Receives a group's messages for one loop's listeners of one kind. Any thread.
protocol GroupReceiver: AnyObject, Sendable {
    func notify(_ news: GroupMessage, of group: ObjectIdentifier)
}

/// An owner of a loop's listeners. Belongs to the loop's thread.
protocol GroupSubscriber: AnyObject, SendableMetatype {
    func hear(_ news: GroupMessage, from group: ObjectIdentifier)
}

// The hearers are deliberately not generic classes: calls through these protocols are not specialized for the types of
// a generic class, and would iterate slowly over thousands of listeners.
extension LoopLink: GroupReceiver where Owner: GroupSubscriber {
    func notify(_ news: GroupMessage, of group: ObjectIdentifier) {
        post { $0.hear(news, from: group) }
    }
}

/// The groups that have listeners. Shared by all loops.
final class ListenerGroups: Sendable {
    /// Shared by all groups, because a libcrypto context for each would take a kilobyte.
    private let hasher = EventHasher()
    private let groups = Mutex<[ListenerKey: ListenerGroup]>([:])

    /// Adds a loop's listener to its group, and creates the group for the first listener. Returns the snapshot after
    /// which the group receives changes.
    func join(
        _ key: ListenerKey, _ namespace: LiveNamespace, _ outlet: any GroupReceiver
    ) -> (ListenerGroup, Snapshot) {
        groups.withLock { groups in
            let group = groups[key] ?? ListenerGroup(key, namespace, hasher)
            groups[key] = group
            group.add(outlet)
            return (group, namespace.subscribe(group, at: key.path))
        }
    }

    func leave(_ group: ListenerGroup, _ outlet: any GroupReceiver) {
        groups.withLock { groups in
            guard group.remove(outlet) else { return }
            groups[group.key] = nil
            group.namespace.unsubscribe(group, at: group.key.path)
        }
    }

    var count: Int { groups.withLock { $0.count } }
}
