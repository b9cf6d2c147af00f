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

/// What listeners have to have in common to be sent the same bytes.
struct ListenerKey: Hashable, Sendable {
    enum Encoding: Hashable, Sendable {
        /// Server-sent events, with an id each where the client asks for ids.
        case events(JSONForm, withIDs: Bool)
        /// Pushes of the realtime protocol, but for their end, which holds each listen's own tag.
        case realtime
        /// The same, with marks: for clients that have asked for the gateway's extension.
        case markedRealtime
    }

    let namespace: NamespaceKey
    let path: Path
    let query: Query?
    let encoding: Encoding
}

/// What a group tells its listeners.
enum GroupNews: Sendable {
    case events(EncodedEvents)
    /// What is between what was last told and the snapshot is not known.
    case reset(Snapshot)
    /// The namespace has new rules: what may be read may be another part of it now.
    case newRules
    /// The namespace is no more, or another one has its name.
    case ended
}

/// Where a group's news go: one loop's listeners of one kind. Any thread.
protocol GroupOutlet: AnyObject, Sendable {
    func tell(_ news: GroupNews, of group: ObjectIdentifier)
}

/// Who has listeners of groups on a loop. Belongs to the loop's thread.
protocol GroupHearer: AnyObject, SendableMetatype {
    func hear(_ news: GroupNews, from group: ObjectIdentifier)
}

// The hearers are no generic classes on purpose: what is called through these protocols is not specialized for the types of
// a generic class, and would go through thousands of listeners slowly.
extension LoopLink: GroupOutlet where Owner: GroupHearer {
    func tell(_ news: GroupNews, of group: ObjectIdentifier) {
        post { $0.hear(news, from: group) }
    }
}

/// The groups that have listeners. Shared by all loops.
final class ListenerGroups: Sendable {
    /// One for all, as a context of libcrypto for each would take a kilobyte of memory.
    private let hasher = EventHasher()
    private let groups = Mutex<[ListenerKey: ListenerGroup]>([:])

    /// Adds a loop's listener to its group, which is made if it is the first, and tells from which snapshot on the group hears.
    func join(
        _ key: ListenerKey, _ namespace: LiveNamespace, _ outlet: any GroupOutlet
    ) -> (ListenerGroup, Snapshot) {
        groups.withLock { groups in
            let group = groups[key] ?? ListenerGroup(key, namespace, hasher)
            groups[key] = group
            group.add(outlet)
            return (group, namespace.subscribe(group, at: key.path))
        }
    }

    func leave(_ group: ListenerGroup, _ outlet: any GroupOutlet) {
        groups.withLock { groups in
            guard group.remove(outlet) else { return }
            groups[group.key] = nil
            group.namespace.unsubscribe(group, at: group.key.path)
        }
    }

    var count: Int { groups.withLock { $0.count } }
}
