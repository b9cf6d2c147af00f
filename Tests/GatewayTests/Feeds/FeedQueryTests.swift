import Testing
import Wire

@testable import Gateway

/// Tests of the query parameters of feed requests.
@Suite struct FeedQueryTests {
    private func query(_ text: String) -> FeedQuery { FeedQuery(ArraySlice(text.utf8)) }

    @Test func values() {
        let given = query("consumer=c%201&after=default%3A42%3A0&empty=&x=a=b&&lone&=nameless")
        #expect(given["consumer"] == "c 1")
        #expect(given["after"] == "default:42:0")
        #expect(given["empty"] == "")
        #expect(given["x"] == "a=b")
        #expect(given["lone"] == nil)
        #expect(given["absent"] == nil)
        #expect(FeedQuery(nil)["consumer"] == nil)
        #expect(query("")["consumer"] == nil)
    }

    /// Checks that parameters that cannot be decoded are ignored, as unknown names are.
    @Test func whatIsNoPercentEncoding() {
        let given = query("a=%G0&b=%4&c%=1&%64=2")
        #expect(given["a"] == nil && given["b"] == nil && given["c%"] == nil)
        #expect(given["d"] == "2")
    }

    @Test func numbers() throws {
        let given = query("limit=10&low=0&high=1001&minus=-1&text=ten&long=99999999999999999999&part=1.5&none=")
        #expect(try given.number("limit", 1...1_000) == 10)
        #expect(try given.number("limit", 10...10) == 10)
        #expect(try given.number("absent", 1...1_000) == nil)
        for name in ["low", "high", "minus", "text", "long", "part", "none"] {
            #expect(throws: RESTError(400, "\(name) must be a whole number from 1 to 1000")) {
                try given.number(name, 1...1_000)
            }
        }
    }
}
