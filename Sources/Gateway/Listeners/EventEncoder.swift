import Engine
import Synchronization
import Wire

/// Writes the events of a group in its encoding. Any thread.
final class EventEncoder: Sendable {
    private let key: ListenerKey
    private let namespace: LiveNamespace
    /// What makes the events' ids, and under which rules.
    private let known = Mutex<(rules: RulesVersion, ids: EventIDs)?>(nil)

    init(_ key: ListenerKey, _ namespace: LiveNamespace) {
        self.key = key
        self.namespace = namespace
    }

    func encode(_ event: ChangeEvent, seq: Int64, batch: [UInt8]?) -> [UInt8] {
        switch key.encoding {
        case .events(let form): StreamEvent.encode(event, id: ids(namespace.snapshot.rules).id(seq, batch), form: form)
        case .realtime: ServerMessage.push(event, listener: key.path, isTagged: key.query != nil)
        }
    }

    /// What makes and reads the ids of this group's events under these rules.
    func ids(_ rules: RulesVersion) -> EventIDs {
        known.withLock { known in
            if let known, known.rules === rules { return known.ids }
            let ids = EventIDs(namespace, key.path, rules)
            known = (rules, ids)
            return ids
        }
    }
}
