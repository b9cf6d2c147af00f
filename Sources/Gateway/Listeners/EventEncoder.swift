import Engine
import HTTPServer
import Synchronization
import Wire

/// Encodes the events of a group. Any thread.
final class EventEncoder: Sendable {
    private let key: ListenerKey
    private let namespace: LiveNamespace
    private let hasher: EventHasher
    /// The event ids under the newest rules that were used.
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

    /// Encodes an event of a past entry.
    ///
    /// - Parameter id: the event's id; evaluated if the encoding has ids or marks.
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

    /// Returns the event ids of this group under the given rules.
    func ids(_ rules: RulesVersion) -> EventIDs {
        known.withLock { known in
            if let known, known.rules === rules { return known.ids }
            let ids = EventIDs(namespace, key.path, rules, hasher)
            known = (rules, ids)
            return ids
        }
    }
}

/// Events for a group of listeners, encoded once. There is at least one event.
struct EncodedEvents: Sendable {
    struct Event: Sendable {
        let seq: Int64
        let bytes: SharedBytes
    }

    let events: [Event]
    /// The seq of the newest event.
    let lastSeq: Int64
    /// All events joined, for streams that have received none of them: one send instead of several. For realtime
    /// listens, whose pushes are still incomplete, only the byte count is meaningful.
    let joined: SharedBytes

    /// Returns nil if there are no events.
    init?(_ events: [Event]) {
        guard let first = events.first, let last = events.last else { return nil }
        self.events = events
        lastSeq = last.seq
        joined = events.count == 1 ? first.bytes : SharedBytes(Array(events.lazy.map(\.bytes.bytes).joined()))
    }
}
