import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks heads that are committed but not yet announced, and their recipients.
@Suite struct CommitAnnouncerTests {
    @Test func theNewestHeadOfEach() {
        let news = CommitAnnouncer()
        news.add(1, head: 5)
        news.add(2, head: 7)
        news.add(1, head: 6)
        #expect(news.take() == [1: 6, 2: 7])
        #expect(news.take() == [:])
    }

    @Test func whatCouldNotBeAnnouncedIsNoNewerThanWhatCameMeanwhile() {
        let news = CommitAnnouncer()
        news.add(1, head: 5)
        news.add(2, head: 7)
        let taken = news.take()
        news.add(1, head: 6)
        news.putBack(taken)
        #expect(news.take() == [1: 6, 2: 7])
    }

    /// Every listener eventually receives the newest head of each namespace that a gateway commits, however many
    /// batches there were.
    @Test func allFollowersLearnTheNewestHead() throws {
        try withEngines { url, engines in
            let listener = try LogConnection(url)
            defer { listener.close() }
            try listener.listen(to: [.commits])
            var expected: [Int64: Int64] = [:]
            for name in ["one", "two", "three"] {
                let namespace = try engines[0].namespace(name)
                for number in 0..<50 as Range<Int64> {
                    expected[namespace.id] = try #require(namespace.write(.set("a", .int(number)))?.committedSeq)
                }
            }
            var heard: [Int64: Int64] = [:]
            var wentBack = false
            let isComplete = try eventually {
                for case .commit(let namespace, let head) in try listener.waitForAnnouncements(
                    milliseconds: 100, wake: nil)
                {
                    wentBack = wentBack || head < heard[namespace, default: 0]
                    heard[namespace] = head
                }
                return heard == expected
            }
            #expect(isComplete && !wentBack, "\(heard) \(expected)")
        }
    }

    /// A write that is refused or whose condition fails causes no announcement.
    @Test func whatIsRefusedIsNoNews() throws {
        try withEngines { url, engines in
            let listener = try LogConnection(url)
            defer { listener.close() }
            try listener.listen(to: [.commits])
            let namespace = try engines[0].namespace()
            #expect(namespace.write(.set("a", .int(1)))?.committedSeq == 1)
            var heard: [Announcement] = []
            let last = { (seq: Int64) throws -> Bool in
                try eventually {
                    heard += try listener.waitForAnnouncements(milliseconds: 100, wake: nil)
                    return heard.last == .commit(namespace: namespace.id, head: seq)
                }
            }
            #expect(try last(1))
            for _ in 0..<20 {
                #expect(namespace.write(.set("a", .int(2), expecting: "no such hash"))?.committedSeq == nil)
            }
            #expect(namespace.write(.set("a", .int(3)))?.committedSeq == 2)
            #expect(try last(2))
            #expect(heard == [1, 2].map { .commit(namespace: namespace.id, head: $0) })
        }
    }

    /// Commits shortly after an announcement are announced together with the next one; listeners in the same process
    /// are notified at once.
    @Test func whatFollowsCloselyGoesTogether() throws {
        try withDatabase { url in
            let listener = try LogConnection(url)
            defer { listener.close() }
            try listener.listen(to: [.commits])
            let engine = try TestEngine(url) { settings, _ in settings.announceMilliseconds = 600_000 }
            let namespace = try engine.namespace()
            let inside = engine.engine.announcements.subscribe(to: .mirrors)
            inside.follow([namespace.id])
            var heard: [Announcement] = []
            func hear(_ head: Int64) throws -> Bool {
                try eventually {
                    heard += try listener.waitForAnnouncements(milliseconds: 50, wake: nil)
                    return heard.last == .commit(namespace: namespace.id, head: head)
                }
            }
            // The tail may begin to listen only now, and then reports that notifications may have been missed.
            func heads() -> [Int64: Int64] {
                let heard = inside.wait(milliseconds: 10_000)
                return heard.heads.isEmpty && heard.wantsLook ? heads() : heard.heads
            }
            for number in 1...20 as ClosedRange<Int64> {
                #expect(namespace.write(.set("a", .int(number)))?.committedSeq == number)
                #expect(heads() == [namespace.id: number])
                if number == 1 { #expect(try hear(1)) }
            }
            engine.stop()
            #expect(try hear(20))
            #expect(heard == [1, 20].map { .commit(namespace: namespace.id, head: $0) })
        }
    }

    /// A gateway that stops has announced its last commit.
    @Test func theLastCommitBeforeAStop() throws {
        try withDatabase { url in
            let listener = try LogConnection(url)
            defer { listener.close() }
            try listener.listen(to: [.commits])
            for round in 1...5 as ClosedRange<Int64> {
                let engine = try TestEngine(url)
                let namespace = try engine.namespace()
                #expect(namespace.write(.set("a", .int(round)))?.committedSeq == round)
                engine.stop()
                var heard: [Announcement] = []
                let isHeard = try eventually {
                    heard += try listener.waitForAnnouncements(milliseconds: 100, wake: nil)
                    return heard.last == .commit(namespace: namespace.id, head: round)
                }
                #expect(isHeard, "\(heard)")
            }
        }
    }
}
