public import Runtime
import Synchronization

/// Distributes the announcements that one connection receives to the parts of the program.
///
/// PostgreSQL wakes every listening session of a database at each notification, even on channels to which the session
/// does not listen. The program therefore has one listening session, whose owner passes announcements on here.
/// A part is woken only by announcements to which it has subscribed. Thread-safe.
public final class Announcements: Sendable {
    private let subscriptions = Mutex<[AnnouncementSubscription]>([])

    public init() {}

    /// Returns a subscription to announcements of `kind`, and to commits of the namespaces that the subscription
    /// follows.
    public func subscribe(to kind: Announcement.Kind) -> AnnouncementSubscription {
        let subscription = AnnouncementSubscription(kind)
        subscriptions.withLock { $0.append(subscription) }
        return subscription
    }

    /// Passes on an announcement. Does not block.
    public func notify(_ announcement: Announcement) {
        for subscription in subscriptions.withLock({ $0 }) { subscription.notify(announcement) }
    }

    /// Reports that earlier announcements may have been missed: the connection was lost, or has just begun to listen.
    public func notifyOfGap() {
        for subscription in subscriptions.withLock({ $0 }) { subscription.notifyOfGap() }
    }
}

/// The announcements for one part of the program. Thread-safe; only one thread may wait.
public final class AnnouncementSubscription: Sendable {
    /// The announcements since the last wait.
    public struct Heard: Sendable, Equatable {
        /// Newest heads by namespace.
        public var heads: [Int64: Int64]
        /// Whether something of the subscription's kind was announced, or announcements may have been missed.
        public var wantsLook: Bool

        public init(heads: [Int64: Int64] = [:], wantsLook: Bool = false) {
            self.heads = heads
            self.wantsLook = wantsLook
        }

        var isEmpty: Bool { heads.isEmpty && !wantsLook }
    }

    private struct State: Sendable {
        var heard = Heard()
        var followed: Set<Int64> = []
        var hasEnded = false
        /// When `wait` last returned heads, in monotonic milliseconds.
        var announcedHeadsAt: Int64 = .min / 2
    }

    /// The minimum time between two deliveries of heads. Senders that announce more often, even without reason, cause
    /// no more deliveries.
    private static let spacingMilliseconds: Milliseconds = 20

    private let kind: Announcement.Kind
    private let state = Condition(State())

    init(_ kind: Announcement.Kind) { self.kind = kind }

    /// Receives commits of these namespaces from now on, and of no others. Call it before reading the heads of the
    /// namespaces, so that a commit between the two is seen by both.
    public func follow(_ namespaces: Set<Int64>) {
        state.withLock { state in
            state.followed = namespaces
            state.heard.heads = state.heard.heads.filter { namespaces.contains($0.key) }
        }
    }

    /// Waits until there are announcements, the time has passed or `end` is called.
    public func wait(milliseconds: Milliseconds) -> Heard {
        let start = Clock.monotonicMilliseconds
        let rest = state.withLock { $0.announcedHeadsAt } + Self.spacingMilliseconds - start
        if rest > 0, milliseconds > 0 {
            // Only heads are delayed; other announcements end this wait.
            _ = state.wait(milliseconds: min(rest, milliseconds)) { $0.heard.wantsLook || $0.hasEnded ? true : nil }
        }
        let left = max(0, start + milliseconds - Clock.monotonicMilliseconds)
        return state.wait(milliseconds: left) { state -> Heard? in
            guard !state.heard.isEmpty || state.hasEnded else { return nil }
            defer { state.heard = Heard() }
            if !state.heard.heads.isEmpty { state.announcedHeadsAt = Clock.monotonicMilliseconds }
            return state.heard
        } ?? Heard()
    }

    /// Ends waiting, now and in future calls.
    public func end() { state.broadcast { $0.hasEnded = true } }

    func notify(_ announcement: Announcement) {
        if case .commit(let namespace, let head) = announcement {
            // Most commits concern namespaces that a part does not follow: these wake no thread.
            guard state.withLock({ $0.followed.contains(namespace) }) else { return }
            state.signal { $0.heard.heads[namespace] = head }
        } else if announcement.kind == kind {
            state.signal { $0.heard.wantsLook = true }
        }
    }

    func notifyOfGap() { state.signal { $0.heard.wantsLook = true } }
}
