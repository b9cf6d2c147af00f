import Engine
import Rules
import Tree

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
