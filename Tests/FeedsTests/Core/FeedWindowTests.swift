import LogStore
import Testing

@testable import Feeds

/// Tests of how many more messages a feed's reader may add.
@Suite struct FeedWindowTests {
    private func bring(_ count: Int, _ window: FeedWindow, bytes: Int = 1) {
        for _ in 0..<count { window.bring(bytes: bytes) }
    }

    @Test func messagesInFlightTakeRoom() {
        let window = FeedWindow(room: 10, bytes: 1_000)
        #expect(window.available() == 10)
        bring(4, window)
        #expect(window.available() == 6)
        // The dispatcher has accepted the messages, and its reported budget already includes them.
        window.take(4, bytes: 4)
        #expect(!window.mayContinue(room: 6, bytes: 996, enough: 1))
        #expect(window.available() == 6)
        bring(6, window)
        #expect(window.available() == 0)
    }

    /// Checks that the budget is never negative: an entry is not divided at the limit, so more messages may be in
    /// flight than fit.
    @Test func thereIsNeverLessThanNothing() {
        let window = FeedWindow(room: 3, bytes: 1_000)
        bring(5, window)
        #expect(window.available() == 0)
        window.take(2, bytes: 2)
        #expect(!window.mayContinue(room: 1, bytes: 998, enough: 1))
        #expect(window.available() == 0)
        window.take(3, bytes: 3)
        #expect(window.mayContinue(room: 1, bytes: 995, enough: 1))
        #expect(window.available() == 1)
    }

    @Test func waitersAreNotifiedOnceAndOnlyWhenThereIsEnough() {
        let window = FeedWindow(room: 2, bytes: 1_000)
        // No reader waits yet.
        #expect(!window.mayContinue(room: 2, bytes: 1_000, enough: 1))
        bring(2, window)
        #expect(window.available() == 0)
        window.take(2, bytes: 2)
        #expect(!window.mayContinue(room: 0, bytes: 998, enough: 2))
        #expect(!window.mayContinue(room: 1, bytes: 999, enough: 2))
        #expect(window.mayContinue(room: 2, bytes: 1_000, enough: 2))
        #expect(!window.mayContinue(room: 2, bytes: 1_000, enough: 2))
        #expect(window.available() == 2)
    }

    /// Checks that a few large messages fill the window as many small ones do.
    @Test func bytesAreRoomToo() {
        let window = FeedWindow(room: 10, bytes: 1_000)
        bring(2, window, bytes: 499)
        #expect(window.available() == 8)
        window.bring(bytes: 499)
        #expect(window.available() == 0)
        window.take(3, bytes: 1_497)
        #expect(!window.mayContinue(room: 7, bytes: -497, enough: 1))
        #expect(window.mayContinue(room: 9, bytes: 501, enough: 1))
        #expect(window.available() == 9)
    }

    // MARK: The memory of all feeds

    private func window(_ memory: FeedMemory, _ namespace: String, feed: Int64 = 1) -> FeedWindow {
        let claim = FeedClaim(namespace: 1, feed: feed, worker: [1], generation: 1)
        return FeedWindow(
            room: 1_000, bytes: 100_000, account: .init(memory: memory, claim: claim, namespace: namespace))
    }

    /// Checks that a single feed gets a quarter and a namespace half of the memory, and that another namespace still
    /// gets some.
    @Test func memoryIsShared() {
        let memory = FeedMemory(bytes: 1_000)
        func fill(_ window: FeedWindow) -> Int {
            var count = 0
            while window.available() > 0, count < 1_000 {
                window.bring(bytes: 10)
                count += 1
            }
            return count
        }
        let first = window(memory, "a")
        #expect(fill(first) == 25)
        for feed in 2...20 as ClosedRange<Int64> { #expect(fill(window(memory, "a", feed: feed)) > 0) }
        #expect(memory.usedBytes < 800)
        #expect(fill(window(memory, "b")) > 3)
    }

    /// Checks that a feed without messages in memory may add one, however little memory is left.
    @Test func oneMessageAlwaysGoes() {
        let memory = FeedMemory(bytes: 100)
        let large = window(memory, "a")
        #expect(large.available() == 1_000)
        #expect(!large.bring(bytes: 5_000))
        let other = window(memory, "b")
        #expect(other.available() == 1)
        #expect(!other.bring(bytes: 10))
        #expect(other.available() == 0)
        // The reader is notified when its message is done, although the memory only suffices for one message.
        other.take(1, bytes: 10)
        #expect(!other.mayContinue(room: 999, bytes: 100_000 - 10, enough: 500))
        #expect(other.mayContinue(room: 1_000, bytes: 100_000, enough: 500))
        #expect(other.available() == 1)
    }

    @Test func whatIsDoneIsNotCharged() {
        let memory = FeedMemory(bytes: 10_000)
        let window = window(memory, "a")
        for _ in 0..<10 { window.bring(bytes: 100) }
        #expect(memory.usedBytes == 1_000)
        window.take(10, bytes: 1_000)
        #expect(memory.usedBytes == 1_000)
        _ = window.mayContinue(room: 995, bytes: 100_000 - 500, enough: 1)
        #expect(memory.usedBytes == 500)
        window.close()
        #expect(memory.usedBytes == 0)
        // The reader may not have noticed the end yet.
        window.bring(bytes: 100)
        #expect(memory.usedBytes == 0)
    }
}
