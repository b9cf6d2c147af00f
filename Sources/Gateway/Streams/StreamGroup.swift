import Engine
import HTTPServer
import Synchronization
import Tree
import Wire

/// What streams have to have in common to be sent the same bytes.
struct StreamKey: Hashable, Sendable {
    let namespace: Int64
    let path: Path
    let query: Query?
    let form: JSONForm
}

/// Events for a group of streams, encoded once.
struct EncodedEvents: Sendable {
    struct Event: Sendable {
        let seq: Int64
        let bytes: SharedBytes
    }
    let events: [Event]
    /// All of them together, for streams that have seen none: one send instead of several.
    let joined: SharedBytes

    init?(_ events: [Event]) {
        guard let first = events.first else { return nil }
        self.events = events
        joined = events.count == 1 ? first.bytes : SharedBytes(Array(events.lazy.map(\.bytes.bytes).joined()))
    }
}

/// All streams of one path, query and form, on whatever loop: hears of changes, encodes each once, and hands the bytes to
/// the loops that have such streams.
final class StreamGroup: ChangeListener {
    let key: StreamKey
    let namespace: LiveNamespace

    private struct State {
        var loops: [ObjectIdentifier: (link: LoopLink, streams: Int)] = [:]
        /// What the query selected after the last step, for groups with a query.
        var window: Node?
    }
    private let state = Mutex(State())

    init(_ key: StreamKey, _ namespace: LiveNamespace) {
        self.key = key
        self.namespace = namespace
    }

    /// Counts a loop's stream in.
    func add(_ link: LoopLink) {
        state.withLock { state in
            let streams = state.loops[ObjectIdentifier(link)]?.streams ?? 0
            state.loops[ObjectIdentifier(link)] = (link, streams + 1)
        }
    }

    /// Counts a loop's stream out; true when the group has none left.
    func remove(_ link: LoopLink) -> Bool {
        state.withLock { state in
            let id = ObjectIdentifier(link)
            if let entry = state.loops[id] {
                state.loops[id] = entry.streams > 1 ? (link, entry.streams - 1) : nil
            }
            return state.loops.isEmpty
        }
    }

    func changed(_ steps: [Step]) {
        var events: [EncodedEvents.Event] = []
        for step in steps {
            guard let event = event(for: step) else { continue }
            let bytes = StreamEvent.encode(event, seq: step.entry.seq, form: key.form)
            events.append(.init(seq: step.entry.seq, bytes: SharedBytes(bytes)))
        }
        guard let encoded = EncodedEvents(events) else { return }
        let id = ObjectIdentifier(self)
        for link in links { link.post { $0.deliver(encoded, to: id) } }
    }

    func reset(to snapshot: Snapshot) {
        state.withLock { $0.window = nil }
        let id = ObjectIdentifier(self)
        for link in links { link.post { $0.restart(group: id, from: snapshot) } }
    }

    func rulesChanged(in snapshot: Snapshot) {
        let id = ObjectIdentifier(self)
        for link in links { link.post { $0.recheckedReaders(of: id) } }
    }

    private var links: [LoopLink] { state.withLock { $0.loops.values.map(\.link) } }

    private func event(for step: Step) -> ChangeEvent? {
        guard let query = key.query else {
            return ChangeEvent(step.entry, at: key.path, before: step.before)
        }
        let old = state.withLock { $0.window } ?? query.select(from: step.before[key.path])
        let new = query.select(from: step.after[key.path])
        state.withLock { $0.window = new }
        return ChangeEvent(from: old, to: new)
    }

    /// The value that a stream of this group begins with.
    func value(in snapshot: Snapshot) -> Node {
        let node = snapshot.root[key.path]
        return key.query.map { $0.select(from: node) } ?? node
    }

    func initialEvent(_ snapshot: Snapshot) -> SharedBytes {
        SharedBytes(StreamEvent.encode(.put(.root, value(in: snapshot)), seq: snapshot.seq, form: key.form))
    }
}

/// The groups that have streams.
final class StreamHub: Sendable {
    private let groups = Mutex<[StreamKey: StreamGroup]>([:])

    /// Adds a loop's stream to its group, which is made if it is the first, and tells from which snapshot on the group hears.
    func join(_ key: StreamKey, _ namespace: LiveNamespace, _ link: LoopLink) -> (StreamGroup, Snapshot) {
        groups.withLock { groups in
            let group = groups[key] ?? StreamGroup(key, namespace)
            groups[key] = group
            group.add(link)
            return (group, namespace.subscribe(group, at: key.path))
        }
    }

    func leave(_ group: StreamGroup, _ link: LoopLink) {
        groups.withLock { groups in
            guard group.remove(link) else { return }
            groups[group.key] = nil
            group.namespace.unsubscribe(group, at: group.key.path)
        }
    }

    var groupCount: Int { groups.withLock { $0.count } }
}
