import Glibc
import Runtime
import Testing

@testable import HTTPServer

/// Checks that invalid settings are refused by name, all at once.
@Suite struct ServerSettingsTests {
    struct Mistake: Sendable, CustomTestStringConvertible {
        let said: String
        let change: @Sendable (inout HTTPServerSettings) -> Void
        init(_ said: String, _ change: @escaping @Sendable (inout HTTPServerSettings) -> Void) {
            self.said = said
            self.change = change
        }
        var testDescription: String { said }
    }

    static let mistakes: [Mistake] = [
        .init("addresses is empty") { $0.addresses = [] },
        .init("tlsAddresses needs a certificate in tls") { $0.tlsAddresses = [ListenAddress(host: "::1", port: 0)] },
        .init("maxConnectionsPerAddress must be positive") { $0.maxConnectionsPerAddress = 0 },
        .init("loops must be 1...256") { $0.loops = 0 },
        .init("loops must be 1...256") { $0.loops = 257 },
        .init("backlog must be positive") { $0.backlog = 0 },
        .init("maxConnections must be positive") { $0.maxConnections = 0 },
        .init("maxHeaderBytes must be 256...81920") { $0.maxHeaderBytes = 255 },
        .init("maxHeaderBytes must be 256...81920") { $0.maxHeaderBytes = 81_921 },
        .init("maxHeaderCount must be positive") { $0.maxHeaderCount = 0 },
        .init("maxTargetBytes must be positive") { $0.maxTargetBytes = 0 },
        .init("maxBodyBytes must not be negative") { $0.maxBodyBytes = -1 },
        .init("maxPlainBodyBytes must not be negative") { $0.maxPlainBodyBytes = -1 },
        .init("minBodyBytesPerSecond must be positive") { $0.minBodyBytesPerSecond = 0 },
        .init("headerTimeoutMilliseconds must be 1...86400000") { $0.headerTimeoutMilliseconds = 0 },
        .init("bodyTimeoutMilliseconds must be 1...86400000") { $0.bodyTimeoutMilliseconds = 0 },
        .init("idleTimeoutMilliseconds must be 1...86400000") { $0.idleTimeoutMilliseconds = 86_400_001 },
        .init("writeStallTimeoutMilliseconds must be 1...86400000") { $0.writeStallTimeoutMilliseconds = -1 },
        .init("lingerTimeoutMilliseconds must be 1...86400000") { $0.lingerTimeoutMilliseconds = 0 },
        .init("tlsHandshakeTimeoutMilliseconds must be 1...86400000") { $0.tlsHandshakeTimeoutMilliseconds = 0 },
    ]

    @Test(arguments: mistakes) func each(_ mistake: Mistake) {
        var settings = HTTPServerSettings()
        mistake.change(&settings)
        #expect(settings.mistakes() == [mistake.said])
        #expect(throws: HTTPServerError.invalidSettings([mistake.said])) {
            try HTTPServer(settings: settings) { _ in NoHandler() }
        }
    }

    @Test func allAtOnce() {
        var settings = HTTPServerSettings()
        for mistake in Self.mistakes where mistake.said != "tlsAddresses needs a certificate in tls" {
            mistake.change(&settings)
        }
        #expect(settings.mistakes().count == Set(Self.mistakes.map(\.said)).count - 1)
        #expect(HTTPServerSettings().mistakes().isEmpty)
        let error = HTTPServerError.invalidSettings(["a", "b"])
        #expect(error.description == "The HTTP server's settings are not usable: a; b")
    }

    @Test func theEdgesAreAllowed() {
        var settings = HTTPServerSettings()
        settings.maxHeaderBytes = 256
        settings.maxBodyBytes = 0
        settings.loops = 256
        settings.idleTimeoutMilliseconds = 86_400_000
        settings.lingerTimeoutMilliseconds = 1
        #expect(settings.mistakes().isEmpty)
    }

    /// The tick is short enough for the shortest timeout, and no shorter than needed.
    @Test(arguments: [(1, 10), (40, 10), (41, 10), (400, 100), (2_000, 500), (86_400_000, 500)])
    func howOftenDeadlinesAreLookedAt(_ shortest: Int, _ tick: Int) {
        var settings = HTTPServerSettings()
        settings.headerTimeoutMilliseconds = numericCast(shortest)
        #expect(Int(settings.deadlineTickMilliseconds) == tick)
    }

    @Test func withoutShortOnesOnceASecond() {
        var settings = HTTPServerSettings()
        settings.lingerTimeoutMilliseconds = 60_000
        #expect(settings.deadlineTickMilliseconds == 1_000)
    }

    private final class NoHandler: HTTPLoopHandler {
        func requestReceived(_ request: HTTPRequest, _ exchange: HTTPExchange) {}
        func loopWillDrain() {}
        func loopWillStop() {}
    }

    @Test(arguments: [
        (EADDRINUSE, "another process listens there"), (EACCES, "choose a port above 1023"),
        (EADDRNOTAVAIL, "no such address"),
    ]) func whyItCannotListen(_ number: Int32, _ hint: String) {
        let error = HTTPServerError.cannotListen(address: "127.0.0.1:80", step: "bind", errorNumber: number)
        #expect(error.description.hasPrefix("Cannot listen at 127.0.0.1:80: bind: "))
        #expect(error.description.contains(hint))
    }

    @Test func addressesThatCannotBeListenedAt() throws {
        let server = try TestServer(TestServer.echo)
        for (host, port, number) in [("127.0.0.1", server.port, EADDRINUSE), ("192.0.2.1", 0, EADDRNOTAVAIL)]
            as [(String, UInt16, Int32)]
        {
            do {
                _ = try TestServer({ $0.addresses = [ListenAddress(host: host, port: port)] }, TestServer.echo)
                Issue.record("\(host) was listened at")
            } catch let error as HTTPServerError {
                guard case .cannotListen(_, _, number) = error else {
                    Issue.record("\(error)")
                    continue
                }
            }
        }
        #expect(throws: HTTPServerError.self) {
            try TestServer({ $0.addresses = [ListenAddress(host: "example.com", port: 0)] }, TestServer.echo)
        }
    }

    @Test(
        arguments: [
            ("127.0.0.1", 80, "127.0.0.1:80"), ("::1", 80, "[::1]:80"), ("[::1]", 80, "[::1]:80"),
            ("localhost", 0, "localhost:0"),
            ("[", 1, "[:1"), ("", 1, ":1"),
        ] as [(String, UInt16, String)]) func addressesAsText(_ host: String, _ port: UInt16, _ text: String)
    {
        #expect(ListenAddress(host: host, port: port).description == text)
    }
}

/// Checks that the number of connections, in total and per address, is limited as configured, and that ended ones are
/// released.
@Suite struct SharedBudgetTests {
    private static func budget(_ most: Int, perAddress: Int?, except: [String] = []) -> SharedBudget {
        var settings = HTTPServerSettings()
        settings.maxConnections = most
        settings.maxConnectionsPerAddress = perAddress
        settings.unlimitedNetworks = except.compactMap(IPNetwork.init)
        return SharedBudget(settings)
    }

    private static func refusal(_ result: Result<Permits, Refusal>) -> Refusal? {
        if case .failure(let refusal) = result { refusal } else { nil }
    }

    @Test func inAll() throws {
        let budget = Self.budget(2, perAddress: nil)
        let address = try #require(IPAddress("192.0.2.1"))
        let first = try budget.takeConnection(address).get()
        _ = try budget.takeConnection(address).get()
        #expect(Self.refusal(budget.takeConnection(address)) == .full)
        budget.releaseConnection(first)
        #expect(Self.refusal(budget.takeConnection(address)) == nil)
        #expect(Self.refusal(budget.takeConnection(address)) == .full)
    }

    @Test func ofOneAddress() throws {
        let budget = Self.budget(100, perAddress: 1, except: ["10.0.0.0/8"])
        let (one, other) = (try #require(IPAddress("192.0.2.1")), try #require(IPAddress("192.0.2.2")))
        let permits = try budget.takeConnection(one).get()
        #expect(Self.refusal(budget.takeConnection(one)) == .tooManyFromAddress)
        #expect(Self.refusal(budget.takeConnection(other)) == nil)
        budget.releaseConnection(permits)
        #expect(Self.refusal(budget.takeConnection(one)) == nil)
        // Proxies represent many clients.
        let proxy = try #require(IPAddress("10.1.2.3"))
        for _ in 0..<50 { #expect(Self.refusal(budget.takeConnection(proxy)) == nil) }
        // An IPv6 network counts as one address.
        #expect(Self.refusal(budget.takeConnection(try #require(IPAddress("2001:db8::1")))) == nil)
        #expect(Self.refusal(budget.takeConnection(try #require(IPAddress("2001:db8::2")))) == .tooManyFromAddress)
        #expect(Self.refusal(budget.takeConnection(try #require(IPAddress("2001:db8:0:1::1")))) == nil)
    }

    /// A refused connection takes no share, neither of its address nor of the total.
    @Test func aRefusalTakesNothing() throws {
        let budget = Self.budget(2, perAddress: 1)
        let one = try #require(IPAddress("192.0.2.1"))
        _ = try budget.takeConnection(one).get()
        for _ in 0..<10 { #expect(Self.refusal(budget.takeConnection(one)) == .tooManyFromAddress) }
        #expect(Self.refusal(budget.takeConnection(try #require(IPAddress("192.0.2.2")))) == nil)
        for _ in 0..<10 { #expect(Self.refusal(budget.takeConnection(try #require(IPAddress("192.0.2.3")))) == .full) }
    }

    @Test(arguments: [(Refusal.full, 503), (.tooManyFromAddress, 429)]) func statuses(_ refusal: Refusal, _ status: Int)
    {
        #expect(refusal.status == status)
        #expect(!refusal.text.isEmpty)
    }

    @Test func bodies() throws {
        var settings = HTTPServerSettings()
        settings.memory = MemoryBudget(bytes: 1_000, bytesPerAddress: 500)
        settings.unlimitedNetworks = [try #require(IPNetwork("10.0.0.0/8"))]
        let budget = SharedBudget(settings)
        #expect(budget.takeBody(600) && !budget.takeBody(401) && budget.takeBody(400))
        #expect(budget.bodyBytesTaken == 1_000)
        budget.releaseBody(1_000)
        let address = try #require(IPAddress("192.0.2.1"))
        let share = budget.takeLargeBody(500, address)
        #expect(share != nil && budget.takeLargeBody(1, address) == nil)
        // This address is not limited to a share.
        #expect(budget.takeLargeBody(500, try #require(IPAddress("10.0.0.1"))) != nil)
        withExtendedLifetime(share) {}
    }
}

/// Checks that the ends of one peer's frames are recognized, with any division of its bytes.
@Suite struct FrameBoundaryTests {
    static func frame(_ head: UInt8, _ count: Int, isMasked: Bool = true) -> [UInt8] {
        var bytes = [head]
        let mask: UInt8 = isMasked ? 0x80 : 0
        switch count {
        case ..<126: bytes.append(mask | UInt8(count))
        case ..<65_536: bytes += [mask | 126, UInt8(count >> 8), UInt8(count & 0xFF)]
        default: bytes += [mask | 127] + (0..<8).map { UInt8(truncatingIfNeeded: count >> (56 - 8 * $0)) }
        }
        if isMasked { bytes += [1, 2, 3, 4] }
        return bytes + [UInt8](repeating: 0x55, count: count)
    }

    @Test(arguments: [0, 1, 125, 126, 127, 65_535, 65_536, 70_000], [true, false])
    func oneMessage(_ count: Int, _ isMasked: Bool) {
        let bytes = Self.frame(0x81, count, isMasked: isMasked)
        // Every cut within the head, and some after it.
        for cut in Array(0...min(bytes.count, 20)) + [bytes.count / 2, bytes.count - 1] {
            var boundary = FrameBoundary()
            bytes[..<cut].withUnsafeBytes { boundary.take($0) }
            #expect(boundary.isBetweenMessages == (cut == 0 || cut == bytes.count), "cut at \(cut)")
            bytes[cut...].withUnsafeBytes { boundary.take($0) }
            #expect(boundary.isBetweenMessages, "cut at \(cut)")
        }
    }

    @Test func fragmentsAndControlFrames() {
        var boundary = FrameBoundary()
        func take(_ head: UInt8, _ count: Int) -> Bool {
            Self.frame(head, count).withUnsafeBytes { boundary.take($0) }
            return boundary.isBetweenMessages
        }
        #expect(take(0x89, 4))
        #expect(!take(0x01, 10))
        #expect(!take(0x89, 0))
        #expect(!take(0x00, 300))
        #expect(!take(0x8A, 125))
        #expect(take(0x80, 0))
        #expect(take(0x88, 2))
        #expect(!take(0x02, 0))
        #expect(take(0x80, 70_000))
    }

    /// After each prefix, fed byte by byte, the answer equals that of a plain reader of all bytes.
    @Test(arguments: 0..<60) func everyPrefix(_ seed: UInt64) {
        var dice = SeededGenerator(seed: seed &* 977 + 11)
        var bytes: [UInt8] = []
        var ends: Set<Int> = [0]
        var isWithin = false
        for _ in 0..<12 {
            let count = [0, 1, 5, 125, 126, 200, 66_000].randomElement(using: &dice) ?? 0
            if Int.random(in: 0..<3, using: &dice) == 0 {
                bytes += Self.frame(0x89, min(count, 125), isMasked: Bool.random(using: &dice))
            } else {
                let isLast = Bool.random(using: &dice)
                bytes += Self.frame(
                    (isLast ? 0x80 : 0) | (isWithin ? 0 : 1), count, isMasked: Bool.random(using: &dice))
                isWithin = !isLast
            }
            if !isWithin { ends.insert(bytes.count) }
        }
        var boundary = FrameBoundary()
        for index in bytes.indices {
            bytes[index...index].withUnsafeBytes { boundary.take($0) }
            guard boundary.isBetweenMessages == ends.contains(index + 1) else {
                Issue.record("seed \(seed): wrong behind byte \(index)")
                return
            }
        }
    }
}

/// Checks that a reader of the standard can parse the frames that the server builds.
@Suite struct WebSocketFrameTests {
    @Test(arguments: [0, 1, 125, 126, 65_535, 65_536, 100_000]) func text(_ count: Int) throws {
        let payload = [UInt8](repeating: 0x61, count: count)
        let bytes = WebSocketFrame.text(payload)
        #expect(bytes[0] == 0x81)
        // The shortest form of the length, and no mask.
        let (length, start): (Int, Int) =
            switch bytes[1] {
            case 126: (Int(bytes[2]) << 8 | Int(bytes[3]), 4)
            case 127: (bytes[2..<10].reduce(0) { $0 << 8 | Int($1) }, 10)
            default: (Int(bytes[1]), 2)
            }
        #expect(length == count)
        #expect(start == (count < 126 ? 2 : count < 65_536 ? 4 : 10))
        #expect(Array(bytes[start...]) == payload)
    }

    @Test func severalInOnePiece() {
        var bytes: [UInt8] = []
        WebSocketFrame.appendText(Array("one".utf8), to: &bytes)
        WebSocketFrame.appendText(Array("two".utf8)[...], to: &bytes)
        #expect(bytes == WebSocketFrame.text(Array("one".utf8)) + WebSocketFrame.text(Array("two".utf8)))
    }

    @Test func controlFrames() {
        #expect(WebSocketFrame.ping() == [0x89, 0])
        #expect(WebSocketFrame.close(1_000) == [0x88, 2, 3, 0xE8])
        #expect(WebSocketFrame.close(4_999) == [0x88, 2, 0x13, 0x87])
    }
}
