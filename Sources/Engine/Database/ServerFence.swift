import LogStore
import Synchronization

/// Keeps this gateway from going back to a server that another one has taken over from: a primary that nobody has stopped
/// would take writes that are lost, or fork the log.
final class ServerFence: Sendable {
    enum Admission: Sendable, Equatable {
        /// The first server, or the one that was there before.
        case known
        /// A standby was promoted, or a backup was restored to a point in time.
        case promoted(from: Int64)
        /// Another cluster, such as one that a dump was restored to.
        case another
    }

    private let newest = Mutex<ServerIdentity?>(nil)

    /// - Throws: `outdated` for a server of an older timeline than one that has been met.
    func admit(_ server: ServerIdentity) throws(LogStoreError) -> Admission {
        let (admission, refusal) = newest.withLock { newest -> (Admission, LogStoreError?) in
            guard let known = newest else {
                newest = server
                return (.known, nil)
            }
            guard let system = server.system, system == known.system else {
                // Whoever may not ask which cluster it is can't compare.
                guard server.system != known.system else { return (.known, nil) }
                newest = server
                return (.another, nil)
            }
            if server.timeline < known.timeline {
                return (.known, .outdated(timeline: server.timeline, newest: known.timeline))
            }
            newest = server
            return (server.timeline == known.timeline ? .known : .promoted(from: known.timeline), nil)
        }
        if let refusal { throw refusal }
        return admission
    }
}
