import Engine
import HTTPServer
import Synchronization
import Tree
import Wire

/// What listeners have to have in common to be sent the same bytes.
struct ListenerKey: Hashable, Sendable {
    enum Encoding: Hashable, Sendable {
        /// Server-sent events.
        case events(JSONForm)
        /// Pushes of the realtime protocol, but for their end, which holds each listen's own tag.
        case realtime
    }

    let namespace: Int64
    let path: Path
    let query: Query?
    let encoding: Encoding
}

/// Events for a group of listeners, encoded once.
struct EncodedEvents: Sendable {
    struct Event: Sendable {
        let seq: Int64
        let bytes: SharedBytes
    }
    let events: [Event]
    /// All of them together, for streams that have seen none: one send instead of several. For realtime listens, whose
    /// pushes are not whole yet, only their number of bytes is of use.
    let joined: SharedBytes

    init?(_ events: [Event]) {
        guard let first = events.first else { return nil }
        self.events = events
        joined = events.count == 1 ? first.bytes : SharedBytes(Array(events.lazy.map(\.bytes.bytes).joined()))
    }
}

/// All listeners of one path, query and encoding, on whatever loop: hears of changes, encodes each once, and hands the
/// bytes to the loops that have such listeners.
final class ListenerGroup: ChangeListener {
    let key: ListenerKey
    let namespace: LiveNamespace

    private struct State {
        var loops: [ObjectIdentifier: (link: LoopLink, listeners: Int)] = [:]
        /// What the query selected after the last step, for groups with a query.
        var window: Node?
        /// What makes the events' ids, and under which rules.
        var ids: (rules: RulesVersion, maker: EventIDs)?
    }
    private let state = Mutex(State())

    init(_ key: ListenerKey, _ namespace: LiveNamespace) {
        self.key = key
        self.namespace = namespace
    }

    /// Counts a loop's listener in.
    func add(_ link: LoopLink) {
        state.withLock { state in
            let count = state.loops[ObjectIdentifier(link)]?.listeners ?? 0
            state.loops[ObjectIdentifier(link)] = (link, count + 1)
        }
    }

    /// Counts a loop's listener out; true when the group has none left.
    func remove(_ link: LoopLink) -> Bool {
        state.withLock { state in
            let id = ObjectIdentifier(link)
            if let entry = state.loops[id] {
                state.loops[id] = entry.listeners > 1 ? (link, entry.listeners - 1) : nil
            }
            return state.loops.isEmpty
        }
    }

    func changed(_ steps: [Step]) {
        var events: [EncodedEvents.Event] = []
        for step in steps {
            guard let event = event(for: step) else { continue }
            events.append(.init(seq: step.entry.seq, bytes: SharedBytes(encode(event, step.entry.seq, step.batch))))
        }
        guard let encoded = EncodedEvents(events) else { return }
        let id = ObjectIdentifier(self)
        let isRealtime = key.encoding == .realtime
        for link in links {
            link.post { isRealtime ? $0.deliverRealtime(encoded, to: id) : $0.deliver(encoded, to: id) }
        }
    }

    func reset(to snapshot: Snapshot) {
        state.withLock { $0.window = nil }
        let id = ObjectIdentifier(self)
        for link in links {
            link.post {
                $0.restart(group: id, from: snapshot)
                $0.restartRealtime(group: id, from: snapshot)
            }
        }
    }

    func rulesChanged(in snapshot: Snapshot) {
        let id = ObjectIdentifier(self)
        for link in links {
            link.post {
                $0.recheckReaders(of: id)
                $0.recheckListens(of: id)
            }
        }
    }

    func ended() {
        let id = ObjectIdentifier(self)
        // Realtime sessions are closed with the gateway's lease.
        for link in links { link.post { $0.endStreams(of: id) } }
    }

    private var links: [LoopLink] { state.withLock { $0.loops.values.map(\.link) } }

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

    /// The value that a listener of this group begins with.
    func value(in snapshot: Snapshot) -> Node {
        Selection(key.query, at: key.path, namespace, snapshot, isFollowed: true).select(from: snapshot.root[key.path])
    }

    func initialEvent(_ snapshot: Snapshot) -> SharedBytes {
        SharedBytes(encode(.put(.root, value(in: snapshot)), snapshot.seq, snapshot.batch))
    }

    /// What makes and reads the ids of this group's events under these rules.
    func ids(_ rules: RulesVersion) -> EventIDs {
        state.withLock { state in
            if let known = state.ids, known.rules === rules { return known.maker }
            let maker = EventIDs(namespace, key.path, rules)
            state.ids = (rules, maker)
            return maker
        }
    }

    private func encode(_ event: ChangeEvent, _ seq: Int64, _ batch: [UInt8]?) -> [UInt8] {
        switch key.encoding {
        case .events(let form): StreamEvent.encode(event, id: ids(namespace.snapshot.rules).id(seq, batch), form: form)
        case .realtime: ServerMessage.push(event, listener: key.path, isTagged: key.query != nil)
        }
    }
}

/// The groups that have listeners.
final class ListenerHub: Sendable {
    private let groups = Mutex<[ListenerKey: ListenerGroup]>([:])

    /// Adds a loop's listener to its group, which is made if it is the first, and tells from which snapshot on the group hears.
    func join(_ key: ListenerKey, _ namespace: LiveNamespace, _ link: LoopLink) -> (ListenerGroup, Snapshot) {
        groups.withLock { groups in
            let group = groups[key] ?? ListenerGroup(key, namespace)
            groups[key] = group
            group.add(link)
            return (group, namespace.subscribe(group, at: key.path))
        }
    }

    func leave(_ group: ListenerGroup, _ link: LoopLink) {
        groups.withLock { groups in
            guard group.remove(link) else { return }
            groups[group.key] = nil
            group.namespace.unsubscribe(group, at: group.key.path)
        }
    }

    var groupCount: Int { groups.withLock { $0.count } }
}
