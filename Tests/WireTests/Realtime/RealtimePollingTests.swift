import TestSupport
import Testing

@testable import Wire

@Suite struct RealtimePollingTests {
    private func parameters(_ text: String) -> RealtimeParameters { RealtimeParameters(Array(text.utf8)[...]) }

    private func take(_ segments: inout LongPollSegments, _ text: String) -> [String]? {
        segments.take(parameters(text))?.map { String(decoding: $0, as: UTF8.self) }
    }

    @Test func theReferencesPiece() {
        var segments = LongPollSegments(maxBytes: 1_000)
        let data = "eyJ0IjoiZCIsImQiOnsiciI6MSwiYSI6InMiLCJiIjp7ImMiOnsic2RrLmpzLjktNi0xIjoxfX19fQ.."
        #expect(
            take(&segments, "id=x&seg0=0&ts0=1&d0=\(data)")
                == ["{\"t\":\"d\",\"d\":{\"r\":1,\"a\":\"s\",\"b\":{\"c\":{\"sdk.js.9-6-1\":1}}}}"])
    }

    @Test func piecesOutOfOrderAndTwice() {
        var segments = LongPollSegments(maxBytes: 1_000)
        // "abcdef" in three pieces, then "x"; the requests arrive in any order, and some twice.
        #expect(take(&segments, "seg0=2&ts0=3&d0=ZWY.") == [])
        #expect(take(&segments, "seg0=3&ts0=1&d0=eA..") == [])
        #expect(take(&segments, "seg0=0&ts0=3&d0=YWI") == [])
        #expect(take(&segments, "seg0=0&ts0=3&d0=YWI") == [])
        #expect(take(&segments, "seg0=1&ts0=3&d0=Y2Q")?.count == 2)
        #expect(take(&segments, "seg0=1&ts0=3&d0=Y2Q") == [])
        #expect(take(&segments, "seg0=4&ts0=1&d0=eQ..&seg1=5&ts1=1&d1=eg..") == ["y", "z"])
        #expect(take(&segments, "id=1") == [])
    }

    @Test(arguments: [
        "seg0=0&ts0=1", "seg0=0&d0=YQ..", "seg0=x&ts0=1&d0=YQ..", "seg0=0&ts0=0&d0=YQ..", "seg0=0&ts0=-1&d0=YQ..",
        "seg0=0&ts0=1&d0=%21", "seg0=0&ts0=9999999&d0=YQ..", "seg0=9223372036854775807&ts0=1&d0=YQ..",
    ]) func whatIsNoPiece(text: String) {
        var segments = LongPollSegments(maxBytes: 1_000)
        #expect(segments.take(parameters(text)) == nil)
    }

    @Test func limits() {
        var segments = LongPollSegments(maxBytes: 100)
        let piece = String(repeating: "A", count: 90)
        #expect(take(&segments, "seg0=0&ts0=4&d0=\(piece)") == [])
        #expect(take(&segments, "seg0=1&ts0=4&d0=\(piece)") == [])
        #expect(!segments.isTooLong)
        #expect(take(&segments, "seg0=2&ts0=4&d0=\(piece)") == nil)
        #expect(segments.isTooLong)
        segments = LongPollSegments(maxBytes: 100)
        #expect(take(&segments, "seg0=0&ts0=1&d0=\(String(repeating: "A", count: 160))") == nil)
        #expect(segments.isTooLong)
        segments = LongPollSegments(maxBytes: 100)
        #expect(take(&segments, "seg0=x&ts0=1&d0=YQ..") == nil)
        #expect(!segments.isTooLong, "malformed, and not too long")
    }

    @Test func parametersAreReadLeniently() {
        let query = parameters("v=5&ns=demo&p=1:1:web:1&ls=&s=abc&empty&bad=%zz&x=a%20b&&=1")
        #expect(query.version == "5" && query.namespace == "demo" && query["p"] == "1:1:web:1")
        #expect(
            query.lastSession == nil && query.pollingSession == "abc" && query["empty"] == "" && query["x"] == "a b")
        #expect(query["bad"] == "%zz")
        #expect(RealtimeParameters(nil).version == nil)
    }

    @Test(arguments: [51, 52] as [UInt64]) func noise(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var segments = LongPollSegments(maxBytes: 500)
        for _ in 0..<5_000 {
            var text = ""
            for index in 0..<random.below(4) {
                text += "&seg\(index)=\(random.below(12))&ts\(index)=\(random.below(5))&d\(index)="
                for _ in 0..<random.below(8) { text.append("AZaz09-_.!"[random.below(10)]) }
            }
            guard let messages = segments.take(parameters(text)) else {
                segments = LongPollSegments(maxBytes: 500)
                continue
            }
            for message in messages { #expect(message.count <= 500) }
        }
    }
}

extension String {
    fileprivate subscript(_ offset: Int) -> Character { self[index(startIndex, offsetBy: offset)] }
}
