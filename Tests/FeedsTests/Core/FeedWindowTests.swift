import Testing

@testable import Feeds

/// How many more messages a feed's reader may bring.
@Suite struct FeedWindowTests {
    @Test func whatIsUnderWayTakesRoom() {
        let window = FeedWindow(room: 10)
        #expect(window.available() == 10)
        window.bring(4)
        #expect(window.available() == 6)
        // The dispatcher has them: its room says so, and what is under way does not count twice.
        #expect(!window.take(4, room: 6, enough: 1))
        #expect(window.available() == 6)
        window.bring(6)
        #expect(window.available() == 0)
    }

    /// An entry is not cut where the room ends: there may be more under way than there is room for.
    @Test func thereIsNeverLessThanNothing() {
        let window = FeedWindow(room: 3)
        window.bring(5)
        #expect(window.available() == 0)
        #expect(!window.take(2, room: 1, enough: 1))
        #expect(window.available() == 0)
        #expect(window.take(3, room: 1, enough: 1))
        #expect(window.available() == 1)
    }

    @Test func whoWaitsIsToldOnceAndOnlyWhenThereIsEnough() {
        let window = FeedWindow(room: 2)
        // Nobody waits yet.
        #expect(!window.take(0, room: 2, enough: 1))
        window.bring(2)
        #expect(window.available() == 0)
        #expect(!window.take(2, room: 0, enough: 2))
        #expect(!window.take(0, room: 1, enough: 2))
        #expect(window.take(0, room: 2, enough: 2))
        #expect(!window.take(0, room: 2, enough: 2))
        #expect(window.available() == 2)
    }
}
