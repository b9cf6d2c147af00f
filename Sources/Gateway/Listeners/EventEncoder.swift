import Engine
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
