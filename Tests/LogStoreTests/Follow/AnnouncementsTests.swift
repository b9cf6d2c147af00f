import LogStore
import Runtime
import Testing

/// Tests of how the announcements of a program's one listening session reach its subscribers.
@Suite struct AnnouncementsTests {
    private let announcements = Announcements()

    /// The announcements received so far.
    private func heard(_ subscription: AnnouncementSubscription) -> AnnouncementSubscription.Heard {
        subscription.wait(milliseconds: 0)
    }

    @Test func newestHeadsOfNamespacesThatArePartOfIt() {
        let subscription = announcements.subscribe(to: .mirrors)
        subscription.follow([1, 2])
        for (namespace, head) in [(1, 5), (2, 7), (3, 9), (1, 6)] as [(Int64, Int64)] {
            announcements.notify(.commit(namespace: namespace, head: head))
        }
        #expect(heard(subscription) == .init(heads: [1: 6, 2: 7], wantsLook: false))
        #expect(heard(subscription) == .init(), "each is heard once")
    }

    @Test func aRolledBackHeadIsNoticed() {
        let subscription = announcements.subscribe(to: .feeds)
        subscription.follow([1])
        announcements.notify(.commit(namespace: 1, head: 9))
        announcements.notify(.commit(namespace: 1, head: 4))
        #expect(heard(subscription).heads == [1: 4])
    }

    @Test func whatIsNotFollowedAnyMoreIsNotHeard() {
        let subscription = announcements.subscribe(to: .feeds)
        subscription.follow([1, 2])
        announcements.notify(.commit(namespace: 1, head: 1))
        announcements.notify(.commit(namespace: 2, head: 2))
        subscription.follow([2, 3])
        announcements.notify(.commit(namespace: 1, head: 3))
        announcements.notify(.commit(namespace: 3, head: 4))
        #expect(heard(subscription).heads == [2: 2, 3: 4])
    }

    @Test func eachKindReachesItsSubscribers() {
        let mirrors = announcements.subscribe(to: .mirrors)
        let feeds = announcements.subscribe(to: .feeds)
        announcements.notify(.mirrors)
        #expect(heard(mirrors).wantsLook)
        #expect(!heard(feeds).wantsLook)
        announcements.notify(.feeds)
        #expect(!heard(mirrors).wantsLook)
        #expect(heard(feeds).wantsLook)
        announcements.notifyOfGap()
        #expect(heard(mirrors).wantsLook && heard(feeds).wantsLook)
    }

    @Test func waitersAreWoken() {
        let subscription = announcements.subscribe(to: .mirrors)
        subscription.follow([1])
        let found = Condition<[AnnouncementSubscription.Heard]>([])
        let thread = Thread(name: "waiting") {
            for _ in 0..<3 {
                let heard = subscription.wait(milliseconds: 600_000)
                found.broadcast { $0.append(heard) }
            }
        }
        func waits(_ count: Int) -> Bool {
            found.wait(milliseconds: 30_000) { $0.count == count ? true : nil } ?? false
        }
        announcements.notify(.commit(namespace: 1, head: 3))
        #expect(waits(1))
        announcements.notifyOfGap()
        #expect(waits(2))
        subscription.end()
        #expect(waits(3))
        thread.join()
        #expect(found.withLock { $0 } == [.init(heads: [1: 3]), .init(wantsLook: true), .init()])
        #expect(heard(subscription) == .init(), "nobody waits any more")
    }
}
