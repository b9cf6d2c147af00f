import LogStore
import Runtime
import Testing

@testable import Feeds

/// Tests of the order of administrators' requests.
@Suite struct AdministratorWorkTests {
    private let orders = FeedName(namespace: "a", name: "orders")
    private let mails = FeedName(namespace: "a", name: "mails")
    private let other = FeedName(namespace: "b", name: "other")

    /// A request without an effect.
    private let nothing: FeedAdministrator.Body = { _ in .done }

    private func add(
        _ kind: FeedAdministrator.Kind, _ feed: FeedName, _ work: inout AdministratorWork, urgent: Bool = false
    ) -> Bool {
        work.add(kind, of: feed, isUrgent: urgent, now: 0, nothing)
    }

    /// The feed of the next request, and whether the request must be moved to another thread.
    private func next(
        _ kind: FeedAdministrator.Kind, _ work: inout AdministratorWork
    ) -> (job: AdministratorWork.Job, mustMove: Bool)? {
        guard case .run(let job, let mustMove) = work.next(kind) else { return nil }
        return (job, mustMove)
    }

    /// Checks that many requests of one namespace do not delay those of another.
    @Test func namespacesTakeTurns() throws {
        var work = AdministratorWork()
        for _ in 0..<100 { #expect(add(.reads, orders, &work)) }
        #expect(add(.reads, other, &work))
        let first = try #require(next(.reads, &work))
        #expect(first.job.feed == orders)
        // A thread executes one request at a time.
        #expect(next(.reads, &work) == nil)
        _ = work.finish(first.job, .reads, .done, now: 0)
        #expect(next(.reads, &work)?.job.feed == other)
    }

    @Test func aFeedHasAQuarterOfTheCapacity() {
        var work = AdministratorWork()
        var count = 0
        while add(.trees, orders, &work), count < 1_000 { count += 1 }
        #expect(count == 16)
        #expect(add(.trees, other, &work) && add(.reads, orders, &work))
    }

    /// Checks that requests of a feed wait for an earlier one that needs a whole tree, and that requests of other feeds
    /// do not.
    @Test func changesOfAFeedKeepTheirOrder() throws {
        var work = AdministratorWork()
        for feed in [orders, orders, mails] { #expect(add(.changes, feed, &work)) }
        let seek = try #require(next(.changes, &work))
        #expect(seek.job.feed == orders && !seek.mustMove)
        #expect(work.finish(seek.job, .changes, .needsTree, now: 0) == nil)
        // This request arrives while the tree is loaded, and is queued after the first immediately.
        #expect(add(.changes, orders, &work))
        let second = try #require(next(.changes, &work))
        #expect(second.job.feed == mails && !second.mustMove)
        _ = work.finish(second.job, .changes, .done, now: 0)
        let third = try #require(next(.changes, &work))
        #expect(third.job.feed == orders && third.mustMove)
        #expect(work.finish(third.job, .changes, .needsTree, now: 0) == nil)
        #expect(next(.changes, &work) == nil)
        for _ in 0..<3 {
            let moved = try #require(next(.trees, &work))
            #expect(moved.job.feed == orders)
            _ = work.finish(moved.job, .trees, .done, now: 0)
        }
        // Later requests need not be moved.
        #expect(work.count == 0 && add(.changes, orders, &work))
        #expect(next(.changes, &work)?.mustMove == false)
    }

    @Test func deadlinesCome() {
        var work = AdministratorWork()
        #expect(add(.reads, orders, &work) && add(.trees, orders, &work))
        #expect(work.expire(at: 9_999).isEmpty)
        #expect(work.expire(at: 10_000).count == 1)
        #expect(work.expire(at: 30_000).count == 1)
        // No request waits for a tree any more.
        #expect(add(.changes, orders, &work))
        #expect(next(.changes, &work)?.mustMove == false)
    }

    @Test func theEndAnswersAll() {
        var work = AdministratorWork()
        for kind in FeedAdministrator.Kind.allCases { #expect(add(kind, orders, &work)) }
        #expect(work.stop().count == 3)
        #expect(!add(.reads, orders, &work))
        for kind in FeedAdministrator.Kind.allCases {
            guard case .stop = work.next(kind) else {
                Issue.record("\(kind) goes on")
                return
            }
        }
    }
}
