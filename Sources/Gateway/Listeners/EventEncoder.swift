import Engine
import HTTPServer
import Synchronization
import Wire

/// Writes the events of a group in its encoding. Any thread.
final class EventEncoder: Sendable {
    private let key: ListenerKey
    private let namespace: LiveNamespace
    private let hasher: EventHasher
    /// What makes the events' ids, and under which rules.
    private let known = Mutex<(rules: RulesVersion, ids: EventIDs)?>(nil)

    init(_ key: ListenerKey, _ namespace: LiveNamespace, _ hasher: EventHasher) {
        self.key = key
        self.namespace = namespace
        self.hasher = hasher
    }

    func encode(_ event: ChangeEvent, seq: Int64, batch: [UInt8]?) -> [UInt8] {
        if case .realtime = key.encoding {
            return ServerMessage.push(event, listener: key.path, isTagged: key.query != nil)
        }
        return Self.encode(event, seq: seq, id: ids(namespace.snapshot.rules).id(seq, batch), for: key)
    }

    /// Writes an event of a past entry.
    ///
    /// - Parameter id: the event's id; evaluated where the encoding has ids or marks.
    static func encode(
        _ event: ChangeEvent, seq: Int64, id: @autoclosure () -> String, for key: ListenerKey
    ) -> [UInt8] {
        switch key.encoding {
        case .events(let form, let withIDs): return StreamEvent.encode(event, id: withIDs ? id() : nil, form: form)
        case .realtime, .markedRealtime:
            let push = ServerMessage.push(event, listener: key.path, isTagged: key.query != nil)
            if case .realtime = key.encoding { return push }
            return ServerMessage.marked(push, LogMark(seq: seq, resumption: id()))
        }
    }

    /// What makes and reads the ids of this group's events under these rules.
    func ids(_ rules: RulesVersion) -> EventIDs {
        known.withLock { known in
            if let known, known.rules === rules { return known.ids }
            let ids = EventIDs(namespace, key.path, rules, hasher)
            known = (rules, ids)
            return ids
        }
    }
}

/// Events for a group of listeners, encoded once. There is at least one.
struct EncodedEvents: Sendable {
    struct Event: Sendable {
        let seq: Int64
        let bytes: SharedBytes
    }

    let events: [Event]
    /// The seq of the newest.
    let lastSeq: Int64
    /// All of them together, for streams that have seen none: one send instead of several. For realtime listens, whose
    /// pushes are not whole yet, only their number of bytes is of use.
    let joined: SharedBytes

    /// Nil where there are none.
    init?(_ events: [Event]) {
        guard let first = events.first, let last = events.last else { return nil }
        self.events = events
        lastSeq = last.seq
        joined = events.count == 1 ? first.bytes : SharedBytes(Array(events.lazy.map(\.bytes.bytes).joined()))
    }
}
