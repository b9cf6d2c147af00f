import LogStore
import Testing

@testable import pathmirror

/// Tests of the figures of followers for metrics.
@Suite struct FollowerFactsTests {
    /// Checks that bytes of an earlier day do not count towards the limit of the day.
    @Test func bytesCountOnTheirDay() {
        var status = FollowStatus()
        status.receivedToday = 70
        #expect(status.received(onDayOf: 0) == 0)
        status.receivedOn = "1970-01-02"
        let day: Int64 = 86_400_000
        #expect(status.received(onDayOf: day - 1) == 0)
        #expect(status.received(onDayOf: day) == 70)
        #expect(status.received(onDayOf: 2 * day - 1) == 70)
        #expect(status.received(onDayOf: 2 * day) == 0)
    }
}
