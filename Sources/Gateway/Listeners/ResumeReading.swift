import Engine
import HTTPServer
import Runtime
import Tree
import Wire

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
