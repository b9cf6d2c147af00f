import Runtime
import Synchronization
import Tree

/// The gateway's maker of push ids: one for all loops, as ids of one millisecond count up.
final class PushIDs: Sendable {
    private let generator = Mutex(PushIDGenerator())

    func next() -> String {
        generator.withLock { $0.next(milliseconds: Clock.unixMilliseconds) }
    }
}
