import Synchronization

/// The refusals that the log has. A page may try for ever, and by any name: the first few tell enough.
final class RefusedPages: Sendable {
    private static let most = 64
    private let seen = Mutex<Set<PageRefusal>>([])

    /// Whether a refusal should be logged, once.
    func isNew(_ refusal: PageRefusal) -> Bool {
        seen.withLock { seen in seen.count < Self.most && seen.insert(refusal).inserted }
    }
}
