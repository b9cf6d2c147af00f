import Runtime

/// When a gateway may announce again what it has committed. A value.
///
/// An announcement is a transaction of its own, which costs PostgreSQL as much as a commit of one write, and whoever listens one awakening. What is committed
/// shortly after the last one waits for a moment, with whatever else comes meanwhile; what comes after a pause is announced at once.
struct AnnouncementPace {
    private let interval: Milliseconds
    private var last: Int64?

    /// - Parameter interval: the least time between two announcements; 0: none.
    init(interval: Milliseconds) { self.interval = interval }

    /// How long the next announcement has to wait; 0: it may be made.
    ///
    /// - Parameter now: a monotonic clock, in milliseconds.
    func wait(at now: Int64) -> Milliseconds {
        guard let last else { return 0 }
        return max(0, min(interval, last + interval - now))
    }

    /// Something has been announced.
    mutating func announced(at now: Int64) { last = now }
}
