import Testing

@testable import pathmirror

/// Checks that a namespace whose rules deny requests is logged, and at a bounded rate.
@Suite struct DenialNoticesTests {
    @Test func eachNamespaceOnceAMinute() {
        let notices = DenialNotices()
        for now in 0..<1_000 as Range<Int64> {
            notices.note("shop", now: now)
            notices.note("chat", now: now)
        }
        #expect(notices.take() == ["shop", "chat"])
        #expect(notices.take().isEmpty)
        notices.note("shop", now: 59_999)
        #expect(notices.take().isEmpty)
        notices.note("shop", now: 60_000)
        #expect(notices.take() == ["shop"])
    }

    /// Requests may name any namespace.
    @Test func manyNamespacesAreBounded() {
        let notices = DenialNotices()
        for index in 0..<1_000 { notices.note("n\(index)", now: 0) }
        #expect(notices.take().count == 100)
        notices.note("late", now: 60_000)
        #expect(notices.take() == ["late"])
    }
}
