import TestSupport
import Testing

@testable import NATSClient

/// Tests of functions that need no server.
@Suite struct PureTests {
    @Test func acknowledgementsAreRead() {
        func read(_ text: String) -> Result<NATSAcknowledgement, NATSError> {
            AcknowledgementText.read(Array(text.utf8))
        }
        #expect(
            read(#"{"stream":"ORDERS","seq":7,"domain":"hub"}"#)
                == .success(.init(stream: "ORDERS", sequence: 7, isDuplicate: false)))
        #expect(
            read(#"{"stream":"ORDERS", "seq":18446744073709551615, "duplicate":true}"#)
                == .success(.init(stream: "ORDERS", sequence: .max, isDuplicate: true)))
        #expect(
            read(#"{"error":{"code":400,"err_code":10060,"description":"no"},"stream":"ORDERS","seq":0}"#)
                == .failure(.rejected(code: 10_060, "no")))
        #expect(read(#"{"error":{"code":503}}"#) == .failure(.rejected(code: 503, "no reason given")))
        for text in ["", "+OK", "[]", "{}", #"{"stream":"","seq":1}"#, #"{"stream":"A"}"#, #"{"stream":"A","seq":-1}"#]
        {
            if case .success = read(text) { Issue.record("\(text) is no acknowledgement") }
        }
        let long = String(repeating: "x", count: 5_000)
        #expect(
            read(#"{"error":{"code":1,"description":"\#(long)"}}"#)
                == .failure(.rejected(code: 1, String(long.prefix(300)))))
    }

    /// Checks the table against a plain list of open messages, for random events.
    @Test(arguments: 0..<40)
    func theTableLosesNothing(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var table = PublishTable(limit: 20, timeoutMilliseconds: 50)
        var now: Int64 = 0
        var open: [(token: UInt64, deadline: Int64, isSent: Bool)] = []
        var nextToken: UInt64 = 0
        for _ in 0..<600 {
            now += Int64(random.below(8))
            switch random.below(6) {
            case 0, 1, 2:
                let isTaken = table.add(.init(subject: "s", id: "i", body: []), at: now) { _ in }
                #expect(isTaken == (open.count < 20))
                if isTaken {
                    nextToken += 1
                    open.append((nextToken, now + 50, false))
                }
            case 3:
                #expect(table.takeWaiting().map(\.token) == open.filter { !$0.isSent }.map(\.token))
                for index in open.indices { open[index].isSent = true }
            case 4:
                let token = nextToken - UInt64(min(Int(nextToken), random.below(25)))
                let index = open.firstIndex { $0.token == token && $0.isSent }
                #expect((table.take(token) != nil) == (index != nil))
                if let index { open.remove(at: index) }
            default:
                if random.oneIn(10) {
                    #expect(table.takeSent().map(\.token) == open.filter(\.isSent).map(\.token))
                    open.removeAll(where: \.isSent)
                } else {
                    #expect(table.takeExpired(at: now).map(\.token) == open.filter { $0.deadline <= now }.map(\.token))
                    open.removeAll { $0.deadline <= now }
                }
            }
            #expect(table.count == open.count)
            #expect(table.nextDeadline() == open.first?.deadline)
        }
    }
}
