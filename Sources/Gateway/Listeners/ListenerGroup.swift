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
