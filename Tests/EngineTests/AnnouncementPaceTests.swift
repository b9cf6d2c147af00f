import Testing

@testable import Engine

/// When commits may be announced again.
@Suite struct AnnouncementPaceTests {
    @Test func theFirstIsAnnouncedAtOnce() {
        #expect(AnnouncementPace(interval: 5).wait(at: 0) == 0)
        #expect(AnnouncementPace(interval: 5).wait(at: .max) == 0)
    }

    @Test func theNextWaitsForTheRestOfTheInterval() {
        var pace = AnnouncementPace(interval: 5)
        pace.announced(at: 100)
        #expect(pace.wait(at: 100) == 5)
        #expect(pace.wait(at: 103) == 2)
        #expect(pace.wait(at: 105) == 0 && pace.wait(at: 1_000) == 0)
    }

    @Test func eachAnnouncementBeginsAnInterval() {
        var pace = AnnouncementPace(interval: 5)
        pace.announced(at: 100)
        pace.announced(at: 104)
        #expect(pace.wait(at: 105) == 4)
    }

    @Test func noIntervalIsNoWait() {
        var pace = AnnouncementPace(interval: 0)
        pace.announced(at: 100)
        #expect(pace.wait(at: 100) == 0)
    }
}
