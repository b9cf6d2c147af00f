import Testing

@testable import Feeds

/// How many more messages a feed's reader may bring.
@Suite struct FeedWindowTests {
    private func bring(_ count: Int, _ window: FeedWindow, bytes: Int = 1) {
        for _ in 0..<count { window.bring(bytes: bytes) }
    }

    @Test func whatIsUnderWayTakesRoom() {
        let window = FeedWindow(room: 10, bytes: 1_000)
        #expect(window.available() == 10)
        bring(4, window)
        #expect(window.available() == 6)
        // The dispatcher has them: its room says so, and what is under way does not count twice.
        window.take(4, bytes: 4)
        #expect(!window.mayGoOn(room: 6, bytes: 996, enough: 1))
        #expect(window.available() == 6)
        bring(6, window)
        #expect(window.available() == 0)
    }

    /// An entry is not cut where the room ends: there may be more under way than there is room for.
    @Test func thereIsNeverLessThanNothing() {
        let window = FeedWindow(room: 3, bytes: 1_000)
        bring(5, window)
        #expect(window.available() == 0)
        window.take(2, bytes: 2)
        #expect(!window.mayGoOn(room: 1, bytes: 998, enough: 1))
        #expect(window.available() == 0)
        window.take(3, bytes: 3)
        #expect(window.mayGoOn(room: 1, bytes: 995, enough: 1))
        #expect(window.available() == 1)
    }

    @Test func whoWaitsIsToldOnceAndOnlyWhenThereIsEnough() {
        let window = FeedWindow(room: 2, bytes: 1_000)
        // Nobody waits yet.
        #expect(!window.mayGoOn(room: 2, bytes: 1_000, enough: 1))
        bring(2, window)
        #expect(window.available() == 0)
        window.take(2, bytes: 2)
        #expect(!window.mayGoOn(room: 0, bytes: 998, enough: 2))
        #expect(!window.mayGoOn(room: 1, bytes: 999, enough: 2))
        #expect(window.mayGoOn(room: 2, bytes: 1_000, enough: 2))
        #expect(!window.mayGoOn(room: 2, bytes: 1_000, enough: 2))
        #expect(window.available() == 2)
    }

    /// A few large messages fill it as many small ones do.
    @Test func bytesAreRoomToo() {
        let window = FeedWindow(room: 10, bytes: 1_000)
        bring(2, window, bytes: 499)
        #expect(window.available() == 8)
        window.bring(bytes: 499)
        #expect(window.available() == 0)
        window.take(3, bytes: 1_497)
        #expect(!window.mayGoOn(room: 7, bytes: -497, enough: 1))
        #expect(window.mayGoOn(room: 9, bytes: 501, enough: 1))
        #expect(window.available() == 9)
    }
}
