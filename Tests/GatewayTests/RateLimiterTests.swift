import HTTPServer
import Rules
import Runtime
import Synchronization
import Testing
import Tree

@testable import Gateway

struct RateLimiterTests {
    // MARK: Buckets

    @Test func bucketAllowsItsBurstAndThenItsRate() {
        let limit = RateLimit(perSecond: 10, burst: 3)
        var bucket = TokenBucket(limit, nowMilliseconds: 1_000)
        for _ in 0..<3 { #expect(bucket.take(1, limit, nowMilliseconds: 1_000) == nil) }
        #expect(bucket.take(1, limit, nowMilliseconds: 1_000) == 100)
        #expect(bucket.take(1, limit, nowMilliseconds: 1_060) == 40)
        #expect(bucket.take(1, limit, nowMilliseconds: 1_100) == nil)
        #expect(bucket.take(1, limit, nowMilliseconds: 1_050) == 100, "a clock that steps back adds nothing")
        // A bucket is never fuller than its burst, even after a long pause.
        for _ in 0..<3 { #expect(bucket.take(1, limit, nowMilliseconds: 900_000) == nil) }
        #expect(bucket.take(1, limit, nowMilliseconds: 900_000) != nil)
    }

    @Test func largeAmountsAreLetThroughAndPaidLater() {
        let limit = RateLimit(perSecond: 100, burst: 1_000)
        var bucket = TokenBucket(limit, nowMilliseconds: 0)
        #expect(bucket.take(5_000, limit, nowMilliseconds: 0) == nil)
        #expect(bucket.take(1, limit, nowMilliseconds: 0) == 40_010)
        #expect(bucket.take(1, limit, nowMilliseconds: 40_009) == 1)
        #expect(bucket.take(1, limit, nowMilliseconds: 40_010) == nil)
    }

    /// Checks that no interval admits more requests than burst and rate allow, and not many fewer, for any arrival
    /// pattern.
    @Test(arguments: 0..<20) func neverMoreThanTheRate(_ seed: UInt64) {
        var generator = LimiterGenerator(state: seed &* 0x9E37_79B9_7F4A_7C15 | 1)
        let limit = RateLimit(
            perSecond: Double.random(in: 0.5...500, using: &generator), burst: .random(in: 1...50, using: &generator))
        var bucket = TokenBucket(limit, nowMilliseconds: 0)
        var now: Int64 = 0
        var admitted = 0.0
        for _ in 0..<5_000 {
            now += Int64.random(in: 0...3, using: &generator)
            if bucket.take(1, limit, nowMilliseconds: now) == nil { admitted += 1 }
            #expect(admitted <= limit.burst + Double(now) * limit.perSecond / 1_000 + 0.001)
        }
        let offered = min(5_000, limit.burst + Double(now) * limit.perSecond / 1_000)
        #expect(admitted >= offered * 0.8 - 2)
    }

    /// Checks that a caller is admitted after exactly the wait that it was given, and not a millisecond earlier.
    @Test(arguments: ["1/s", "3/s:1", "7/m", "1000/s:5", "1/h"]) func waitsAreExact(_ text: String) throws {
        let limit = try #require(RateLimit(text))
        var bucket = TokenBucket(limit, nowMilliseconds: 0)
        var now: Int64 = 0
        for _ in 0..<200 {
            guard let wait = bucket.take(1, limit, nowMilliseconds: now) else { continue }
            #expect(wait > 0)
            var early = bucket
            if wait > 1 { #expect(early.take(1, limit, nowMilliseconds: now + wait - 1) != nil) }
            now += wait
            #expect(bucket.take(1, limit, nowMilliseconds: now) == nil)
        }
    }

    @Test func limitsAsText() {
        #expect(RateLimit("100/s") == RateLimit(perSecond: 100, burst: 100))
        #expect(RateLimit("60/m:5") == RateLimit(perSecond: 1, burst: 5))
        #expect(RateLimit("3600/h") == RateLimit(perSecond: 1, burst: 3_600))
        for text in [
            "", "100", "0/s", "/s", "1/d", "1/s:", "1/s:0", "-1/s", "1.5/s", "1/s:2:3", " 1/s", "9999999999999/s",
        ] {
            #expect(RateLimit(text) == nil, "\(text)")
        }
    }

    // MARK: The table

    @Test func tableForgetsTheLeastRecent() {
        var table = RecentTable<String, Int>(capacity: 3)
        func use(_ key: String) -> Int {
            table.with(key, new: 0) { value in
                value += 1
                return value
            }
        }
        #expect(["a", "b", "c", "a"].map(use) == [1, 1, 1, 2])
        #expect(use("d") == 1)
        #expect(table.count == 3)
        #expect(use("a") == 3)
        #expect(use("c") == 2)
        #expect(use("b") == 1, "b had gone")
        #expect(use("d") == 1, "and so had d")
    }

    @Test(arguments: 1..<6) func tableIsAListInOrderOfUse(_ capacity: Int) {
        var generator = LimiterGenerator(state: UInt64(capacity) &* 77 | 1)
        var table = RecentTable<Int, Int>(capacity: capacity)
        var model: [Int] = []
        for _ in 0..<3_000 {
            let key = Int.random(in: 0..<9, using: &generator)
            let isKnown = table.with(key, new: -1) { value in
                defer { value = key }
                return value == key
            }
            #expect(isKnown == model.contains(key))
            model.removeAll { $0 == key }
            model.append(key)
            if model.count > capacity { model.removeFirst() }
            #expect(table.count == model.count)
        }
    }

    // MARK: The limiter

    private final class ManualTime: Sendable {
        private let value = Mutex<Int64>(1_000_000)
        var now: Int64 {
            get { value.withLock { $0 } }
            set { value.withLock { $0 = newValue } }
        }
    }

    private static func limiter(_ time: ManualTime, _ configure: (inout RateLimiterSettings) -> Void) -> RateLimiter {
        var settings = RateLimiterSettings()
        configure(&settings)
        return RateLimiter(settings) { time.now }
    }

    private static func address(_ text: String) throws -> IPAddress { try #require(IPAddress(text)) }

    private static func user(_ name: String) -> Identity {
        Identity(AuthContext(auth: Node(children: [(Key("uid"), .string(name))])))
    }

    @Test func addressesAreLimitedOneByOne() throws {
        let time = ManualTime()
        let limiter = Self.limiter(time) { $0.perAddress = RateLimit("2/s:2") }
        let (one, two) = (try Self.address("192.0.2.1"), try Self.address("192.0.2.2"))
        #expect(limiter.request(from: one) == nil)
        #expect(limiter.request(from: one) == nil)
        let refusal = try #require(limiter.request(from: one))
        #expect(refusal == RateLimiter.Refusal(kind: .address, waitMilliseconds: 500))
        #expect(refusal.seconds == 1)
        #expect(limiter.request(from: two) == nil)
        time.now += 500
        #expect(limiter.request(from: one) == nil)
        // All addresses of a customer's IPv6 network share one limit.
        #expect(limiter.request(from: try Self.address("2001:db8:1:1::1")) == nil)
        #expect(limiter.request(from: try Self.address("2001:db8:1:1:ffff::2")) == nil)
        #expect(limiter.request(from: try Self.address("2001:db8:1:1::3")) != nil)
        #expect(limiter.request(from: try Self.address("2001:db8:1:2::1")) == nil)
        #expect(limiter.counts.map(\.count) == [2, 0, 0])
    }

    @Test func identitiesAreLimitedByNamespaceAndAdministratorsNot() {
        let limiter = Self.limiter(ManualTime()) { $0.perIdentity = RateLimit("1/m") }
        #expect(limiter.request(by: Self.user("ada"), in: "a") == nil)
        #expect(limiter.request(by: Self.user("ada"), in: "a")?.kind == .identity)
        #expect(limiter.request(by: Self.user("ada"), in: "b") == nil)
        #expect(limiter.request(by: Self.user("bob"), in: "a") == nil)
        for _ in 0..<9 {
            #expect(limiter.request(by: .anonymous(isLoopback: true), in: "a") == nil)
            #expect(limiter.request(by: Identity(.admin), in: "a") == nil)
        }
    }

    @Test func writtenBytesAreLimitedByNamespace() {
        let time = ManualTime()
        let limiter = Self.limiter(time) { $0.writeBytes = RateLimit(perSecond: 1000, burst: 60_000) }
        #expect(limiter.write(59_999, to: "a") == nil)
        #expect(limiter.write(100_000, to: "a") == nil, "the rest lets one more through")
        #expect(limiter.write(1, to: "a")?.seconds == 100)
        #expect(limiter.write(1, to: "b") == nil)
        time.now += 100_000
        #expect(limiter.write(1, to: "a") == nil)
        #expect(limiter.counts.map(\.count) == [0, 0, 1])
    }

    @Test func nothingIsLimitedByDefault() throws {
        let limiter = Self.limiter(ManualTime()) { _ in }
        let address = try Self.address("192.0.2.1")
        for _ in 0..<100 {
            #expect(limiter.request(from: address) == nil)
            #expect(limiter.request(by: Self.user("ada"), in: "a") == nil)
            #expect(limiter.write(1 << 30, to: "a") == nil)
        }
    }

    // MARK: Proxies

    @Test(
        arguments: [
            ("192.0.2.9", ["203.0.113.1"], "192.0.2.9"),
            ("10.0.0.1", [], "10.0.0.1"),
            ("10.0.0.1", ["203.0.113.1"], "203.0.113.1"),
            ("10.0.0.1", ["127.0.0.1, 203.0.113.1"], "203.0.113.1"),
            ("10.0.0.1", ["6.6.6.6, 203.0.113.1 , 10.0.0.7"], "203.0.113.1"),
            ("10.0.0.1", ["6.6.6.6", "203.0.113.1", "10.9.9.9"], "203.0.113.1"),
            ("10.0.0.1", ["10.0.0.2, 10.0.0.3"], "10.0.0.2"),
            ("10.0.0.1", ["203.0.113.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", ["203.0.113.1, x, 10.0.0.4"], "10.0.0.4"),
            ("10.0.0.1", ["203.0.113.1:4711"], "203.0.113.1"),
            ("10.0.0.1", ["[2001:db8::1]:4711"], "2001:db8::1"),
            ("10.0.0.1", ["2001:db8::1"], "2001:db8::1"),
            ("10.0.0.1", ["", ","], "10.0.0.1"),
            ("::ffff:10.0.0.1", ["203.0.113.1"], "203.0.113.1"),
        ] as [(String, [String], String)])
    func clients(_ peer: String, _ lines: [String], _ client: String) throws {
        let network = try #require(IPNetwork("10.0.0.0/8"))
        let limiter = Self.limiter(ManualTime()) { $0.trustedProxies = [network] }
        #expect(limiter.client(try Self.address(peer)) { lines }.description == client)
    }

    @Test func headersOfOthersAreNotEvenRead() throws {
        let limiter = Self.limiter(ManualTime()) { _ in }
        let peer = try Self.address("127.0.0.1")
        let client = limiter.client(peer) {
            Issue.record("read")
            return []
        }
        #expect(client == peer)
    }

    /// Checks that a trusted proxy is not limited: without a forwarded address the limit would apply to all its clients
    /// together.
    @Test func trustedProxiesAreNotLimited() throws {
        let network = try #require(IPNetwork("10.0.0.0/8"))
        let limiter = Self.limiter(ManualTime()) {
            $0.perAddress = RateLimit("1/m")
            $0.trustedProxies = [network]
        }
        for _ in 0..<5 { #expect(limiter.request(from: try Self.address("10.0.0.1")) == nil) }
    }
}

/// A xorshift64* generator with a seed, so that failures are reproducible.
private struct LimiterGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return state &* 0x2545_F491_4F6C_DD1D
    }
}
