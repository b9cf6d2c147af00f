import Engine
import HTTPServer
import Rules
import Runtime
import Tree
import Wire

/// The start of a stream, or of a listen that resumes.
enum StreamStart: Sendable, Equatable {
    /// With a `put` of the value.
    case fresh
    /// After an event that its client has seen.
    case after(EventIDs.Seen)
    /// After this gateway has reached the entry that its client has seen. Earlier events would be repetitions for the
    /// client.
    case waiting(Int64)

    /// Determines how a stream of a group resumes as if its client had never disconnected; `fresh` if that can't be
    /// guaranteed.
    ///
    /// Resuming needs an id that was issued to a reader of this path. It also needs rules that are unchanged since then
    /// and that admit this caller regardless of data and time; otherwise later writes may have been hidden from the
    /// caller. Administrators and viewers may read everything at any time, and may name any seq.
    ///
    /// - Parameter lastEventID: the id of the last event that the client reports to have seen.
    init(_ lastEventID: String?, readsEverything: Bool, _ group: ListenerGroup, _ snapshot: Snapshot) {
        self = Self.find(lastEventID, readsEverything: readsEverything, group, snapshot)
    }

    private static func find(
        _ lastEventID: String?, readsEverything: Bool, _ group: ListenerGroup, _ snapshot: Snapshot
    ) -> StreamStart {
        guard let text = lastEventID else { return .fresh }
        let verified =
            group.ids(snapshot.rules).seen(text)
            ?? EventIDs.seen(text, givenAfter: snapshot.seq, group.namespace, group.key.path)
        let named = readsEverything ? Int64(text.prefix { $0 != "-" }).map { EventIDs.Seen(seq: $0, mark: nil) } : nil
        guard let seen = verified ?? named else {
            // Version 0.1.0 issued a bare seq as id. It proves nothing, but the stream must not begin before it.
            if let bare = Int64(text), bare > snapshot.seq { return .waiting(bare) }
            return .fresh
        }
        if seen.seq > snapshot.seq { return .waiting(seen.seq) }
        let isSteady = snapshot.rules.seq <= seen.seq && snapshot.rules.set.isSteadyForReading(group.key.path)
        return readsEverything || isSteady || seen.seq == snapshot.seq ? .after(seen) : .fresh
    }
}

/// Collects the events that a stream or a listen missed, from entries of the log, page by page. Used by one thread at a
/// time.
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

    /// Adds the next entries. Returns false if no more are needed.
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
                // Past results of a query are unknown.
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

    /// Returns the missed events, or nil if the client needs a fresh value.
    func finish(_ result: Result<Void, EngineError>, expecting last: Int64) -> [SharedBytes]? {
        state.withLock { state in
            guard case .success = result, !state.needsFreshValue, state.last == last else { return nil }
            return state.events
        }
    }
}
