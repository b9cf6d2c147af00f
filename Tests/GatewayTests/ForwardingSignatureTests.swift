import Feeds
import HTTPServer
import Runtime
import TestSupport
import Testing

@testable import Gateway

/// Tests of the facts that a gateway signs when it forwards a request, and of their verification.
@Suite struct ForwardingSignatureTests {
    private let key = Secret<[UInt8]>(Array(repeating: 7, count: 32))
    private let sender = ForwardingIdentity()
    private let receiver = ForwardingIdentity()
    private static let target = "/.feeds/orders/pull?ns=default"
    private static let body = #"{"max":1}"#
    private static let now: Milliseconds = 1_800_000_000_000

    private func header(_ access: FeedAccess = .any, at now: Milliseconds = now) -> String {
        sender.header(
            key, access, client: "2001:db8::1", method: "POST", target: Self.target, body: Array(Self.body.utf8),
            now: now)
    }

    private func request(
        _ header: String, _ method: String = "POST", _ target: String = target, body: String = body
    ) throws -> HTTPRequest {
        try TestRequest.make(method, target, [("X-Pathmirror-Gateway", header)], body: body)
    }

    private func take(_ request: HTTPRequest, at now: Milliseconds = now) -> ForwardedCall? {
        receiver.take(request, key, now: now)
    }

    @Test(arguments: [.any, .id("0191abcd-0000-4000-8000-000000000000"), .since(1_800_000_000)] as [FeedAccess])
    func whatIsVouchedForArrives(access: FeedAccess) throws {
        let call = try #require(take(try request(header(access))))
        #expect(call.access == access && call.client == "2001:db8::1")
    }

    @Test func itIsAcceptedOnce() throws {
        let request = try request(header())
        #expect(receiver.client(of: request, key, now: Self.now) == IPAddress("2001:db8::1"))
        #expect(take(request) != nil)
        #expect(take(request) == nil)
        #expect(take(try self.request(header())) != nil)
    }

    @Test func whatIsChangedIsNotBelieved() throws {
        let good = header(.id("0191abcd-0000-4000-8000-000000000000"))
        #expect(take(try request(good, "PUT")) == nil)
        #expect(take(try request(good, "POST", "/.feeds/others/pull?ns=default")) == nil)
        #expect(take(try request(good, "POST", "/.feeds/orders/pull?ns=other")) == nil)
        #expect(take(try request(good, body: #"{"max":2}"#)) == nil)
        let parts = good.split(separator: " ").map(String.init)
        for (index, other) in [
            "x", "9", "1800000001", "any", "192.0.2.1", "00000000000000aa", String(repeating: "0", count: 64),
        ]
        .enumerated() {
            var changed = parts
            changed[index] = other
            #expect(take(try request(changed.joined(separator: " "))) == nil, "\(changed)")
        }
        for text in ["", "x", parts.dropLast().joined(separator: " "), good + " x", String(repeating: "x", count: 500)]
        {
            #expect(take(try request(text)) == nil)
        }
        #expect(receiver.take(try request(good), Secret(Array(repeating: 8, count: 32)), now: Self.now) == nil)
        #expect(take(try request(good)) != nil, "nothing of that used it up")
    }

    @Test(arguments: [(-61, false), (-60, true), (60, true), (61, false)]) func ofThisTime(
        seconds: Int64, isTaken: Bool
    ) throws {
        let call = take(try request(header(at: Self.now + seconds * 1_000)))
        #expect((call != nil) == isTaken)
    }

    // MARK: Replays

    private func call(_ number: Int64, _ sender: String = "a") -> ForwardedCall {
        ForwardedCall(sender: sender, number: number, time: 0, access: .any, client: "127.0.0.1")
    }

    /// Checks that numbers are admitted in any order, each once, unless they are too old.
    @Test(arguments: [1, 2, 3] as [UInt64]) func numbersInAnyOrder(seed: UInt64) {
        var history = ForwardingHistory()
        func admits(_ number: Int64) -> Bool { history.admits(call(number), now: 0) }
        var random = SeededGenerator(seed: seed)
        var taken: Set<Int64> = []
        var newest: Int64 = 0
        for _ in 0..<20_000 {
            let number = max(1, newest + Int64(random.below(400)) - 300)
            let isNew = number > newest - Int64(ForwardingHistory.window) && !taken.contains(number)
            #expect(admits(number) == isNew)
            taken.insert(number)
            newest = max(newest, number)
        }
        let far = newest + Int64(ForwardingHistory.window) * 3 + 17
        #expect(admits(far) && !admits(far))
        #expect(admits(far - 1), "what the window has left says nothing of others")
        #expect(!admits(far - Int64(ForwardingHistory.window)))
        #expect(
            !admits(0) && !admits(-1) && !admits(.min)
        )
    }

    @Test func sendersAreBounded() {
        var history = ForwardingHistory()
        func admits(_ call: ForwardedCall, now: Int64) -> Bool { history.admits(call, now: now) }
        for number in 0..<ForwardingHistory.mostSenders { #expect(admits(call(1, "s\(number)"), now: 0)) }
        #expect(!admits(call(1, "one more"), now: 120))
        #expect(admits(call(2, "s0"), now: 120))
        #expect(admits(call(1, "one more"), now: 121))
        #expect(!admits(call(2, "s0"), now: 121))
    }
}
