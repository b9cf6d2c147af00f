import Engine
import Testing
import Tree
import Wire

@testable import Gateway

/// Goal: a request for the log is read as it is meant, or refused.
struct LogParametersTests {
    private func read(_ query: String, events: Bool = false, last: String? = nil) throws(RESTError) -> LogParameters {
        try LogParameters(ArraySlice(query.utf8), acceptsEvents: events, lastEventID: last)
    }

    private static let offset = LogPlaceText.offset(LogPlace(seq: 7, batch: [1, 2, 3]))

    struct Case: Sendable {
        let query: String
        let events: Bool
        let last: String?
        let form: LogParameters.Form
        let start: LogParameters.Start

        init(
            _ query: String, events: Bool = false, last: String? = nil, _ form: LogParameters.Form,
            _ start: LogParameters.Start
        ) {
            self.query = query
            self.events = events
            self.last = last
            self.form = form
            self.start = start
        }
    }

    @Test(arguments: [
        Case("", .lines(follows: true), .head), Case("ns=x&auth=y&access_token=z", .lines(follows: true), .head),
        Case("from=1", .lines(follows: true), .behind(LogPlace(seq: 0))),
        Case("from=43&follow=false", .lines(follows: false), .behind(LogPlace(seq: 42))),
        Case("follow=true&from=oldest", .lines(follows: true), .oldest),
        Case("from=5", events: true, .events(follows: true), .behind(LogPlace(seq: 4))),
        Case("from=5&follow=false", events: true, last: "9", .events(follows: false), .behind(LogPlace(seq: 9))),
        Case(
            "from=5", events: true, last: "9-AAAA", .events(follows: true), .behind(LogPlace(seq: 9, batch: [0, 0, 0]))),
        Case("", events: true, last: "", .events(follows: true), .head),
        // Only event streams have it.
        Case("from=5", last: "9", .lines(follows: true), .behind(LogPlace(seq: 4))),
        Case("offset=-1", .durable, .oldest), Case("offset=now", .durable, .head),
        Case("offset=\(offset)", .durable, .behind(LogPlace(seq: 7, batch: [1, 2, 3]))),
        Case("offset=-1&live=long-poll", .durablePoll(cursor: nil), .oldest),
        Case("offset=now&live=long-poll&cursor=12", .durablePoll(cursor: 12), .head),
        Case("offset=now&live=long-poll&cursor=abc", .durablePoll(cursor: nil), .head),
        // The protocol has its servers ignore what they do not know.
        Case("offset=-1&limit=5", .durable, .oldest), Case("print=pretty&offset=-1&=&%FF=1", .durable, .oldest),
        Case("offset=now&live=long-poll&x=%FF", .durablePoll(cursor: nil), .head),
        Case("offset=-1&live=sse", events: true, last: "9", .durableEvents(cursor: nil), .oldest),
    ]) func `what is asked for`(_ given: Case) throws {
        let read = try read(given.query, events: given.events, last: given.last)
        #expect(read.form == given.form)
        #expect(read.start == given.start)
        #expect(read.path == nil)
    }

    @Test func `a path`() throws {
        #expect(try read("path=/orders/o1").path == Path(splitting: "orders/o1"))
        #expect(try read("path=orders%2Fo%20%C3%A41/").path == Path(splitting: "orders/o ä1"))
        #expect(try read("path=/").path == .root)
    }

    @Test(arguments: [
        "from=", "from=0", "from=-1", "from=1.5", "from=9223372036854775808", "from=9223372036854775807", "from=now",
        "from=1&from=2", "follow=",
        "follow=1", "path=a.b", "path=a%23", "path=%FF", "path=%G0", "path=\(String(repeating: "a/", count: 33))",
        "offset=", "offset=1", "offset=-2", "live=sse", "live=long-poll", "live=", "offset=-1&live=",
        "offset=-1&live=true",
        "form=1", "limit=5", "print=pretty", "FROM=1", "=", "from=1&&x",
        "offset=-1&from=1", "offset=-1&follow=true", "live=sse&from=1", "offset=-1&offset=now",
    ]) func `what is refused`(_ query: String) {
        let error = #expect(throws: RESTError.self) { try read(query) }
        #expect(error?.status == 400)
    }

    @Test func `an id that is none is refused`() {
        #expect(throws: RESTError.self) { try read("", events: true, last: "x") }
    }
}
