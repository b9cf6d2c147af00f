import LogStore
import Testing

@testable import Engine

@Suite struct BlockerHistoryTests {
    private static func blocker(
        _ application: String = "pathmirror committer 0", waitsForClient: Bool = true, waitsForLock: Bool = false,
        activity: String = "same"
    ) -> Blocker {
        Blocker(
            pid: 7, startedAt: "then", application: application, waitsForClient: waitsForClient,
            waitsForLock: waitsForLock, activity: activity)
    }

    /// Returns the verdicts of each check, one check every 500 ms by default.
    private static func looks(_ seen: [[Blocker]], every: Int64 = 500) -> [[BlockerHistory.Verdict]] {
        var history = BlockerHistory(BlockerHistory.Patience(gatewayMilliseconds: 3_000, otherMilliseconds: 10_000))
        return seen.enumerated().map {
            history.judge($0.element, now: 1_000 + Int64($0.offset) * every, sinceLastLook: every)
        }
    }

    @Test func silentSessionIsEndedAfterItsTime() {
        let verdicts = Self.looks(Array(repeating: [Self.blocker()], count: 8))
        #expect(verdicts.prefix(6).allSatisfy { $0.isEmpty })
        #expect(verdicts[6] == [.end(Self.blocker())])
    }

    @Test func sessionThatDoesAnythingIsNot() {
        let verdicts = Self.looks((0..<40).map { [Self.blocker(activity: "\($0 / 5)")] })
        #expect(verdicts.allSatisfy { $0.isEmpty })
    }

    @Test func sessionThatWorksIsNot() {
        let verdicts = Self.looks(Array(repeating: [Self.blocker(waitsForClient: false)], count: 60))
        #expect(verdicts.allSatisfy { $0.isEmpty })
    }

    @Test func strangersAreNot() {
        for name in ["psql", "", "mypathmirror committer"] {
            #expect(Self.looks(Array(repeating: [Self.blocker(name)], count: 60)).allSatisfy { $0.isEmpty })
        }
    }

    @Test func importsHaveLonger() {
        let verdicts = Self.looks(Array(repeating: [Self.blocker("pathmirror import")], count: 22))
        #expect(verdicts.firstIndex { !$0.isEmpty } == 20)
    }

    /// The process id now belongs to another session, or the lock was released in between.
    @Test func timeStartsAgain() {
        let other = Blocker(
            pid: 7, startedAt: "later", application: "pathmirror committer 0", waitsForClient: true,
            waitsForLock: false, activity: "same")
        let seen = Array(repeating: [Self.blocker()], count: 5) + Array(repeating: [other], count: 5)
        #expect(Self.looks(seen).allSatisfy { $0.isEmpty })
        let gone = Array(repeating: [Self.blocker()], count: 5) + [[]] + Array(repeating: [Self.blocker()], count: 5)
        #expect(Self.looks(gone).allSatisfy { $0.isEmpty })
    }

    /// A gateway that was frozen itself has observed nothing in that time.
    @Test func ownFreezeDoesNotCount() {
        #expect(Self.looks(Array(repeating: [Self.blocker()], count: 20), every: 5_000).allSatisfy { $0.isEmpty })
    }

    @Test func largeWriteYieldsAtOnce() {
        let large = Self.blocker("pathmirror large write", waitsForClient: false)
        #expect(Self.looks([[large], [large], [large]]) == [[.makeWay(large)], [.makeWay(large)], [.makeWay(large)]])
        // The write is not asked to yield if it waits itself, or if it is about to end.
        let waiting = Self.blocker("pathmirror large write", waitsForClient: false, waitsForLock: true)
        let ending = Self.blocker("pathmirror large write at the head", waitsForClient: false)
        #expect(Self.looks([[waiting], [ending]]) == [[], []])
    }
}
