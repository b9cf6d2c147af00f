import Testing

@testable import Gateway

/// Checks that a client never receives its previous cursor or an earlier one.
struct StreamCursorTests {
    private static let epoch: Int64 = 1_728_432_000_000

    @Test func `it is the number of the interval`() {
        #expect(StreamCursor.next(after: nil, now: Self.epoch) == 0)
        #expect(StreamCursor.next(after: nil, now: Self.epoch + 19_999) == 0)
        #expect(StreamCursor.next(after: nil, now: Self.epoch + 20_000) == 1)
        #expect(StreamCursor.next(after: 999, now: Self.epoch + 20_000_000) == 1_000)
        #expect(StreamCursor.next(after: nil, now: 0) == 0)
    }

    @Test(arguments: [1_000, 1_001, 50_000] as [Int64]) func `it grows`(shown: Int64) {
        for jitter in [-1, 0, 1, 180] as [Int64] {
            let next = StreamCursor.next(after: shown, now: Self.epoch + 20_000_000, jitter: jitter)
            #expect(next > shown && next <= shown + 180)
        }
    }

    @Test func `unknown numbers do no harm`() {
        for shown in [Int64.max, .max - 1, .min, -1] {
            #expect(StreamCursor.next(after: shown, now: Self.epoch + 20_000_000) == 1_000)
        }
    }
}
