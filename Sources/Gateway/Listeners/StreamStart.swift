import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// Where a stream, or a listen that goes on, begins.
enum StreamStart: Sendable, Equatable {
    /// With a `put` of the value.
    case fresh
    /// Behind an event that its client has seen.
    case behind(EventIDs.Seen)
    /// Not before this gateway has come to the entry that its client has seen: what it sent before that, the client would
    /// see twice.
    case waiting(Int64)

    /// How a stream of a group goes on as if its reader had never gone away; with a fresh `put` where that can't be told.
    ///
    /// To go on needs an id that a reader of this place was given, and rules that have been the same since and let this
    /// caller in whatever the data and the time: else what was written meanwhile may have been for others. Administrators
    /// may read everything at any time, and name any seq.
    ///
    /// - Parameter lastEventID: the last event that the client has seen, as it says.
    init(_ lastEventID: String?, isAdmin: Bool, _ group: ListenerGroup, _ snapshot: Snapshot) {
        self = Self.find(lastEventID, isAdmin: isAdmin, group, snapshot)
    }

    private static func find(
        _ lastEventID: String?, isAdmin: Bool, _ group: ListenerGroup, _ snapshot: Snapshot
    ) -> StreamStart {
        guard let text = lastEventID else { return .fresh }
        let sealed =
            group.ids(snapshot.rules).seen(text)
            ?? EventIDs.seen(text, givenBehind: snapshot.seq, group.namespace, group.key.path)
        let named = isAdmin ? Int64(text.prefix { $0 != "-" }).map { EventIDs.Seen(seq: $0, mark: nil) } : nil
        guard let seen = sealed ?? named else {
            // A bare seq, as version 0.1.0 gave them: it proves nothing, but its client is not taken back behind it.
            if let bare = Int64(text), bare > snapshot.seq { return .waiting(bare) }
            return .fresh
        }
        if seen.seq > snapshot.seq { return .waiting(seen.seq) }
        let isSteady = snapshot.rules.seq <= seen.seq && snapshot.rules.set.isSteadyForReading(group.key.path)
        return isAdmin || isSteady || seen.seq == snapshot.seq ? .behind(seen) : .fresh
    }
}

/// Gathers what a stream, or a listen, missed from entries of the log, page by page. Used by one thread at a time.
final class ResumeReading: Sendable {
    private struct State {
        var events: [SharedBytes] = []
        var byteCount = 0
        var last: Int64?
        var needsFreshValue = false
    }
    private let state: MutexBox<State>
    private let key: ListenerKey
    private let ids: EventIDs
    private let maxBytes: Int

    init(_ key: ListenerKey, _ ids: EventIDs, maxBytes: Int) {
        self.key = key
        self.ids = ids
        self.maxBytes = maxBytes
        state = MutexBox(State())
    }

    /// Takes the next entries. False when no more are wanted.
    @Sendable func take(_ entries: [Entry], _ batches: [[UInt8]], after seq: Int64) -> Bool {
        state.withLock { state in
            guard entries.first?.seq == seq + 1 else {
                state.needsFreshValue = true
                return false
            }
            for (entry, batch) in zip(entries, batches) {
                state.last = entry.seq
                if entry.isBulk, key.path.contains(entry.path) || entry.path.contains(key.path) {
                    state.needsFreshValue = true
                }
                guard let event = ChangeEvent(entry, at: key.path, before: nil) else { continue }
                // A window of the past is not known.
                if key.query != nil { state.needsFreshValue = true }
                if state.needsFreshValue { return false }
                let bytes = EventEncoder.encode(event, seq: entry.seq, id: ids.id(entry.seq, batch), for: key)
                state.byteCount += bytes.count
                state.events.append(SharedBytes(bytes))
            }
            if state.byteCount > maxBytes { state.needsFreshValue = true }
            return !state.needsFreshValue
        }
    }

    /// The missed events, or nil if the client must be told the value anew.
    func finish(_ result: Result<Void, EngineError>, expecting last: Int64) -> [SharedBytes]? {
        state.withLock { state in
            guard case .success = result, !state.needsFreshValue, state.last == last else { return nil }
            return state.events
        }
    }
}
