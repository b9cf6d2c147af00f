import Engine
import LogStore
import Testing
import Tree
import Wire

@testable import Gateway

/// Checks that valid log requests are parsed as documented and that all others are refused.
struct LogParametersTests {
    private func read(_ query: String) throws(RESTError) -> LogParameters {
        try LogParameters(ArraySlice(query.utf8))
    }

    private static let offset = LogPositionText.offset(LogLinePosition(LogPosition(seq: 7, batch: [1, 2, 3])))

    @Test(
        arguments: [
            ("", .catchUp, .oldest), ("ns=x&auth=y&access_token=z", .catchUp, .oldest),
            ("offset=-1", .catchUp, .oldest), ("offset=now", .catchUp, .head),
            ("offset=\(offset)", .catchUp, .after(LogLinePosition(LogPosition(seq: 7, batch: [1, 2, 3])))),
            ("offset=-1&live=long-poll", .longPoll(cursor: nil), .oldest),
            ("offset=now&live=long-poll&cursor=12", .longPoll(cursor: 12), .head),
            ("offset=now&live=long-poll&cursor=abc", .longPoll(cursor: nil), .head),
            ("offset=-1&live=sse", .events(cursor: nil), .oldest),
            ("cursor=5&live=sse&offset=now", .events(cursor: 5), .head),
            // The protocol requires servers to ignore unknown parameters.
            ("offset=-1&limit=5", .catchUp, .oldest), ("print=pretty&offset=-1&=&%FF=1", .catchUp, .oldest),
            ("offset=now&live=long-poll&x=%FF", .longPoll(cursor: nil), .head), ("OFFSET=now", .catchUp, .oldest),
        ] as [(String, LogParameters.Mode, LogParameters.Start)])
    func `what is asked for`(_ query: String, _ mode: LogParameters.Mode, _ start: LogParameters.Start) throws {
        let read = try read(query)
        #expect(read.mode == mode)
        #expect(read.start == start)
        #expect(read.path == nil)
    }

    @Test func `a path`() throws {
        #expect(try read("path=/orders/o1").path == Path(splitting: "orders/o1"))
        #expect(try read("path=orders%2Fo%20%C3%A41/").path == Path(splitting: "orders/o ä1"))
        #expect(try read("path=/").path == .root)
    }

    @Test(arguments: [
        "path=a.b", "path=a%23", "path=%FF", "path=%G0", "path=\(String(repeating: "a/", count: 33))",
        "offset=", "offset=1", "offset=-2", "live=sse", "live=long-poll", "live=", "offset=-1&live=",
        "offset=-1&live=true", "offset=-1&offset=now", "path=a&path=b", "offset=%FF",
    ]) func `what is refused`(_ query: String) {
        let error = #expect(throws: RESTError.self) { try read(query) }
        #expect(error?.status == 400)
    }
}
