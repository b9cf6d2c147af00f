import HTTPServer
import Rules
import Runtime
import Synchronization
import TestSupport
import Testing
import Tree

@testable import Gateway

/// What gateways tell one another of rates.
@Suite struct SharedUseTests {
    private final class ManualTime: Sendable {
        private let value = Mutex<Int64>(1_000_000)
        var now: Int64 {
            get { value.withLock { $0 } }
            set { value.withLock { $0 = newValue } }
        }
    }

    private static func limiters(
        _ count: Int, _ time: ManualTime, _ configure: (inout RateLimiterSettings) -> Void
    ) -> [RateLimiter] {
        var settings = RateLimiterSettings()
        configure(&settings)
        return (0..<count).map { _ in RateLimiter(settings) { time.now } }
    }

    /// Each tells all the others, by the text that goes through the database.
    private static func share(_ limiters: [RateLimiter]) throws {
        let notices = limiters.map { $0.takeNotices() }
        for (sender, sent) in notices.enumerated() {
            for notice in sent {
                #expect(notice.text.utf8.count < 7_900)
                let heard = try #require(UseNotice(notice.text))
                for (receiver, limiter) in limiters.enumerated() where receiver != sender { limiter.heard(heard) }
            }
        }
    }

    private static func user(_ name: String) -> Identity {
        Identity(AuthContext(auth: Node(children: [(Key("uid"), .string(name))])))
    }

    // MARK: Texts

    @Test func noticesComeBack() throws {
        let amounts = (1...UseNotice.most).map {
            UseNotice.Amount(caller: LimitedCaller(.identity, "user \($0)"), amount: $0 * $0 * 1_000_000)
        }
        for kind in RateLimiter.Kind.allCases {
            let notice = UseNotice(kind, amounts)
            #expect(UseNotice(notice.text) == notice)
        }
        #expect(LimitedCaller(.address, "a") != LimitedCaller(.identity, "a"))
        #expect(!UseNotice(.identity, amounts).text.contains("user"), "nobody is told who it is")
    }

    @Test func otherTextsAreNone() {
        let caller = LimitedCaller(.address, "a").text
        for text in [
            "", "used", "used address", "used address ", "used nobody \(caller)=1", "turn asks 1 /a",
            "used address \(caller)", "used address \(caller)=", "used address \(caller)=0",
            "used address \(caller)=-1",
            "used address \(caller)=1.5", "used address \(caller)=99999999999999", "used address \(caller)=1=2",
            "used address \(caller.dropLast())=1", "used address \(caller.uppercased())=1", "used address \(caller)=1 ",
            "used address " + Array(repeating: "\(caller)=1", count: UseNotice.most + 1).joined(separator: " "),
        ] {
            #expect(UseNotice(text) == nil, "\(text)")
        }
    }

    // MARK: Counting together

    @Test func whatIsUsedElsewhereCounts() throws {
        let time = ManualTime()
        let limiters = Self.limiters(2, time) {
            $0.perIdentity = RateLimit("10/s:10")
            $0.perAddress = RateLimit("1000/s")
            $0.writeBytesPerMinute = 600
        }
        let ada = Self.user("ada")
        for _ in 0..<10 { #expect(limiters[0].request(by: ada, in: "a") == nil) }
        try Self.share(limiters)
        #expect(limiters[1].request(by: ada, in: "a")?.waitMilliseconds == 100)
        #expect(limiters[1].request(by: ada, in: "b") == nil)
        #expect(limiters[1].request(by: Self.user("bob"), in: "a") == nil)
        time.now += 100
        #expect(limiters[1].request(by: ada, in: "a") == nil)
        // What the other has not heard of yet it gives once more, and is paid for later.
        #expect(limiters[0].request(by: ada, in: "a") == nil)
        try Self.share(limiters)
        #expect(limiters[0].request(by: ada, in: "a")?.waitMilliseconds == 200)
        #expect(limiters[0].write(600, to: "a") == nil)
        try Self.share(limiters)
        #expect(limiters[1].write(1, to: "a")?.kind == .writeBytes)
        #expect(limiters[1].write(1, to: "b") == nil)
    }

    /// Who comes to a gateway long after it has used up everything elsewhere finds what has come back since.
    @Test func useElsewhereIsForgottenInTime() throws {
        let time = ManualTime()
        let limiters = Self.limiters(2, time) { $0.perIdentity = RateLimit("1/s:60") }
        for _ in 0..<60 { #expect(limiters[0].request(by: Self.user("ada"), in: "a") == nil) }
        try Self.share(limiters)
        time.now += 20_000
        var given = 0
        while limiters[1].request(by: Self.user("ada"), in: "a") == nil { given += 1 }
        #expect(given == 20)
    }

    /// Whatever others report, nobody waits longer than a minute for it.
    @Test func debtsAreBounded() throws {
        let time = ManualTime()
        let limiters = Self.limiters(1, time) {
            $0.perIdentity = RateLimit("10/s:10")
            $0.perAddress = RateLimit("10/m")
            $0.writeBytesPerMinute = 600
        }
        let limiter = limiters[0]
        let address = try #require(IPAddress("192.0.2.1"))
        let callers: [(RateLimiter.Kind, LimitedCaller)] = [
            (.identity, LimitedCaller(.identity, "a uid:ada")),
            (.address, LimitedCaller(.address, "\(address.limitKey)")),
            (.writeBytes, LimitedCaller(.writeBytes, "a")),
        ]
        for _ in 0..<3 {
            for (kind, caller) in callers { limiter.heard(UseNotice(kind, [.init(caller: caller, amount: 1 << 40)])) }
        }
        func refusals() -> [RateLimiter.Refusal?] {
            [
                limiter.request(by: Self.user("ada"), in: "a"), limiter.request(from: address),
                limiter.write(1, to: "a"),
            ]
        }
        for refusal in refusals() { #expect(try #require(refusal).seconds <= 66) }
        // An administrator is held to what was written here.
        #expect(limiter.write(599, to: "a", byAdministrator: true) == nil)
        #expect(limiter.write(1, to: "a", byAdministrator: true) == nil)
        #expect(limiter.write(1, to: "a", byAdministrator: true)?.seconds == 1)
        // A minute for what others have reported, and a minute for what the administrator has written here.
        time.now += 121_000
        #expect(refusals().allSatisfy { $0 == nil })
    }

    /// Nothing is told where each counts for itself, and nothing is heard.
    @Test func eachForItself() throws {
        let limiters = Self.limiters(2, ManualTime()) {
            $0.perIdentity = RateLimit("1/m")
            $0.shareMilliseconds = 0
        }
        #expect(limiters[0].request(by: Self.user("ada"), in: "a") == nil)
        #expect(limiters[0].takeNotices().isEmpty)
        limiters[1].heard(
            UseNotice(.identity, [.init(caller: LimitedCaller(.identity, "a ada"), amount: 100)]))
        #expect(limiters[1].request(by: Self.user("ada"), in: "a") == nil)
    }

    /// However callers spread their requests over gateways, over time they have their rate, and at most one burst from each
    /// gateway more, while gateways hear from one another once a second, or now and then not at all.
    @Test(arguments: [2, 5, 20], [1, 2, 3] as [UInt64]) func ratesHoldTogether(gateways: Int, seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let time = ManualTime()
        let (rate, burst) = (50.0, 100.0)
        let limiters = Self.limiters(gateways, time) {
            $0.perIdentity = RateLimit(perSecond: rate, burst: burst)
        }
        let users = (0..<4).map { Self.user("user \($0)") }
        var given = [Double](repeating: 0, count: users.count)
        let seconds = 120
        for _ in 0..<seconds {
            for _ in 0..<20 {
                time.now += 50
                // One asks all gateways at once, one a single gateway, others some of them.
                for (number, user) in users.enumerated() {
                    for _ in 0..<(number == 1 ? 1 : 12) {
                        let place = number == 2 ? 0 : random.below(gateways)
                        if limiters[place].request(by: user, in: "a") == nil { given[number] += 1 }
                    }
                }
            }
            try Self.share(limiters)
        }
        let fair = rate * Double(seconds)
        // What one gateway may give before it hears of the others: its burst at the start, and what a fiftieth of it hides.
        let error = burst * Double(gateways) * 1.1 + rate
        for (number, count) in given.enumerated() where number != 1 {
            #expect(count <= fair + error, "user \(number)")
            #expect(count >= fair * 0.9 - error, "user \(number) had \(count) of \(fair)")
        }
        #expect(given[1] == Double(20 * seconds), "who asks for less than the rate is never refused")
    }

    /// More callers than fit are told of later, and none is forgotten.
    @Test func manyCallers() throws {
        let time = ManualTime()
        let limiters = Self.limiters(2, time) { $0.perIdentity = RateLimit("1/h") }
        for number in 0..<2_500 { #expect(limiters[0].request(by: Self.user("u\(number)"), in: "a") == nil) }
        for round in 0..<3 {
            let notices = limiters[0].takeNotices()
            #expect(notices.reduce(0) { $0 + $1.amounts.count } == (round < 2 ? 960 : 580))
            for notice in notices { limiters[1].heard(notice) }
        }
        #expect(limiters[0].takeNotices().isEmpty)
        for number in 0..<2_500 { #expect(limiters[1].request(by: Self.user("u\(number)"), in: "a") != nil) }
    }
}
