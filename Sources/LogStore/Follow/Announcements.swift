public import Runtime
import Synchronization

/// What one connection of this program hears of a database, for those of its parts that don't listen themselves.
///
/// PostgreSQL wakes every session that listens, at each commit of the database, whatever it listens to. So a program has one session that does, whose owner
/// tells here what it hears; and a part is woken only by what it has asked for. Any thread may use it.
public final class Announcements: Sendable {
    private let subscriptions = Mutex<[AnnouncementSubscription]>([])

    public init() {}

    /// What a part of the program wants to hear of from now on: announcements of `kind`, and commits to the namespaces that it follows.
    public func subscribe(to kind: Announcement.Kind) -> AnnouncementSubscription {
        let subscription = AnnouncementSubscription(kind)
        subscriptions.withLock { $0.append(subscription) }
        return subscription
    }

    /// Something was heard. Returns soon.
    public func tell(_ announcement: Announcement) {
        for subscription in subscriptions.withLock({ $0 }) { subscription.tell(announcement) }
    }

    /// What was announced until now may have gone unheard: the connection was lost, or has begun to listen.
    public func tellOfGap() {
        for subscription in subscriptions.withLock({ $0 }) { subscription.tellOfGap() }
    }
}

/// What one part of the program is told of `Announcements`. Any thread may use it; one waits.
public final class AnnouncementSubscription: Sendable {
    /// What was heard since the last wait.
    public struct Heard: Sendable, Equatable {
        /// Newest heads by namespace.
        public var heads: [Int64: Int64]
        /// Something of the subscription's kind was announced, or anything may have gone unheard.
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
        /// When heads were handed out last, in monotonic milliseconds.
        var toldHeadsAt: Int64 = .min / 2
    }

    /// Between two looks that announced heads cause: who announces more often, be it without reason, causes no more of them.
    private static let spacingMilliseconds: Milliseconds = 20

    private let kind: Announcement.Kind
    private let state = Condition(State())

    init(_ kind: Announcement.Kind) { self.kind = kind }

    /// From now on commits to these namespaces are heard of, and to no others. To be said before their heads are looked at: what is
    /// committed between the two is seen by both.
    public func follow(_ namespaces: Set<Int64>) {
        state.withLock { state in
            state.followed = namespaces
            state.heard.heads = state.heard.heads.filter { namespaces.contains($0.key) }
        }
    }

    /// Waits until something is heard, for so long or until `end`.
    public func wait(milliseconds: Milliseconds) -> Heard {
        let start = Clock.monotonicMilliseconds
        let rest = state.withLock { $0.toldHeadsAt } + Self.spacingMilliseconds - start
        if rest > 0, milliseconds > 0 {
            // Heads wait; all else does not.
            _ = state.wait(milliseconds: min(rest, milliseconds)) { $0.heard.wantsLook || $0.hasEnded ? true : nil }
        }
        let left = max(0, start + milliseconds - Clock.monotonicMilliseconds)
        return state.wait(milliseconds: left) { state -> Heard? in
            guard !state.heard.isEmpty || state.hasEnded else { return nil }
            defer { state.heard = Heard() }
            if !state.heard.heads.isEmpty { state.toldHeadsAt = Clock.monotonicMilliseconds }
            return state.heard
        } ?? Heard()
    }

    /// Nobody is to wait any more.
    public func end() { state.broadcast { $0.hasEnded = true } }

    func tell(_ announcement: Announcement) {
        if case .commit(let namespace, let head) = announcement {
            // Most commits are to namespaces that a part has nothing to do with: no thread is woken for those.
            guard state.withLock({ $0.followed.contains(namespace) }) else { return }
            state.signal { $0.heard.heads[namespace] = head }
        } else if announcement.kind == kind {
            state.signal { $0.heard.wantsLook = true }
        }
    }

    func tellOfGap() { state.signal { $0.heard.wantsLook = true } }
}
