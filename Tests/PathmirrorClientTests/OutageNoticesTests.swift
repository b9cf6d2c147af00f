import Testing

@testable import PathmirrorClient

@Suite struct OutageNoticesTests {
    @Test func eachReasonIsReportedOnceAnOutage() {
        var notices = OutageNotices()
        var reported = ["refused", "refused", "no such name", "refused"].filter { notices.isNews($0) }
        #expect(reported == ["refused", "no such name"])
        let ends = [notices.connected(), notices.connected()]
        #expect(ends == [true, false], "what nobody was told of is not told to be over")
        reported = ["refused"].filter { notices.isNews($0) }
        #expect(reported == ["refused"])
    }

    @Test func wordsThatDifferEachTimeAreBounded() {
        var notices = OutageNotices()
        let reported = (0..<100).filter { notices.isNews("request \($0)") }
        #expect(reported.count == OutageNotices.most)
    }
}
