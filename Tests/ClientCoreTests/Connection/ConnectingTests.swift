import ClientCore
import Testing
import Tree
import Wire

/// Checks that connections are opened, end, and are reopened.
@Suite struct ConnectingTests {
    @Test func beginsOffline() {
        var harness = MachineHarness()
        harness { $0.listen(spec("/a"), tag: nil, now: $1) }
        #expect(harness.opened.isEmpty)
        #expect(harness.machine.deadline == nil)
        #expect(!harness.machine.isConnected)
    }

    @Test func connectsAndReportsTheServersTime() {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        #expect(harness.opened.map(\.address.target) == ["/.ws?v=5&ns=demo&pm=1"])
        #expect(harness.opened.first?.address.hostHeader == "db.example")
        #expect(!harness.machine.isConnected)
        harness.greet(time: 1_234_567_890_123)
        #expect(harness.takeReports() == [.connected(serverTime: 1_234_567_890_123)])
        #expect(harness.machine.isConnected)
    }

    @Test func pausesLongerWithEachFailure() {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        var pauses: [Int64] = []
        for _ in 0..<20 {
            harness.receive(.closed(.unreachable("nobody there")))
            for case .connectFailed(_, let pause) in harness.takeReports() { pauses.append(pause) }
            harness.passTime(to: harness.machine.deadline ?? 0)
        }
        #expect(pauses.count == 20)
        #expect(harness.opened.count == 21)
        #expect((500...1_000).contains(pauses[0]))
        #expect(pauses.allSatisfy { (500...30_000).contains($0) })
        #expect(pauses.suffix(5).allSatisfy { $0 >= 15_000 })
        #expect(Set(pauses.suffix(5)).count > 1, "spread by chance")
    }

    @Test func comesBackAtOnceWhenAsked() {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        for _ in 0..<5 {
            harness.receive(.closed(.unreachable("")))
            harness.passTime(to: harness.machine.deadline ?? 0)
        }
        harness.receive(.closed(.unreachable("")))
        let before = harness.opened.count
        harness { $0.goOnline(now: $1) }
        #expect(harness.opened.count == before + 1)
        _ = harness.takeReports()
        harness.receive(.closed(.unreachable("")))
        guard case .connectFailed(_, let pause)? = harness.takeReports().last else {
            Issue.record("no failure was told")
            return
        }
        #expect(pause <= 1_000, "a first failure again")
    }

    @Test func forgetsFailuresAfterAGoodConnectionOnly() {
        for (seconds, isShort) in [(5, false), (40, true)] as [(Int64, Bool)] {
            var harness = MachineHarness()
            harness { $0.goOnline(now: $1) }
            for _ in 0..<15 {
                harness.receive(.closed(.unreachable("")))
                harness.passTime(to: harness.machine.deadline ?? 0)
            }
            harness.greet()
            harness.now += seconds * 1_000
            harness.receive(.closed(.broken("cut")))
            let pause = (harness.machine.deadline ?? 0) - harness.now
            #expect((pause <= 1_000) == isShort)
        }
    }

    @Test func namesTheSessionBefore() {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        harness.greet(session: "a b/ü")
        harness.receive(.closed(.broken("cut")))
        harness.passTime(to: harness.machine.deadline ?? 0)
        #expect(harness.opened.last?.address.target == "/.ws?v=5&ns=demo&pm=1&ls=a%20b%2F%C3%BC")
    }

    @Test func givesUpOnAServerThatDoesNotGreet() {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        harness.receive(.opened)
        harness.passTime(to: harness.now + 30_000)
        #expect(harness.closes.count == 1)
        harness.passTime(to: harness.now + 2_000)
        #expect(harness.opened.count == 2)
    }

    @Test func ignoresAnOlderConnection() {
        var harness = MachineHarness()
        harness.connect()
        let old = harness.number
        harness { $0.goOffline(now: $1) }
        harness { $0.goOnline(now: $1) }
        _ = harness.takeReports()
        harness { $0.transport(.closed(.byUs), of: old, now: $1) }
        harness { $0.transport(.received(Array("nonsense".utf8)), of: old, now: $1) }
        #expect(harness.takeReports().isEmpty)
        harness.greet()
        #expect(harness.machine.isConnected)
    }

    @Test func followsAResetAndReturns() {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        harness.receive(.control(.reset(host: "other.example:8443")))
        #expect(harness.opened.last?.address.host == "other.example")
        #expect(harness.opened.last?.address.port == 8443)
        #expect(harness.opened.last?.address.isSecure == true)
        harness.receive(.closed(.unreachable("")))
        harness.passTime(to: harness.machine.deadline ?? 0)
        #expect(harness.opened.last?.address.host == "db.example")
    }

    @Test func isNotSentRoundForEver() {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        for _ in 0..<6 { harness.receive(.control(.reset(host: "other.example"))) }
        #expect(harness.opened.count == 6)
        #expect(harness.machine.deadline.map { $0 > harness.now } == true, "it pauses")
    }

    /// A server that greets the client before redirecting it is treated the same way.
    @Test func isNotRedirectedForEverByGreetings() {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        for _ in 0..<6 {
            harness.greet()
            harness.receive(.control(.reset(host: "other.example")))
        }
        #expect(harness.opened.count == 6)
        #expect(harness.machine.deadline.map { $0 > harness.now } == true, "it pauses")
        // A server that has served for a while may redirect the client.
        harness.passTime(to: harness.machine.deadline ?? 0)
        harness.greet()
        harness.passTime(to: harness.now + 30_000)
        let before = harness.opened.count
        harness.receive(.control(.reset(host: "third.example")))
        #expect(harness.opened.count == before + 1)
        #expect(harness.opened.last?.address.host == "third.example")
    }

    @Test(arguments: ["9007199254740993", "-9007199254740993", "9223372036854775807", "-9223372036854775808"])
    func clocksOutOfRange(timestamp: String) {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        harness.receive(#"{"t":"c","d":{"t":"h","d":{"ts":\#(timestamp),"v":"5","h":"db.example","s":"s"}}}"#)
        #expect(!harness.machine.isConnected)
        #expect(harness.closes.count == 1)
    }

    @Test(arguments: [
        "", ":", "a b", "host:0", "host:99999", "host:x", "a/b", "user@host", "[::1", "[]:1", "::1", "h:1:2",
    ])
    func isNotSentToWhatIsNoHost(host: String) {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        harness.receive(.control(.reset(host: host)))
        #expect(harness.opened.count == 1)
        #expect(harness.closes.count == 1)
    }

    @Test func aDatabaseThatIsShutDownIsLeftAlone() {
        var harness = MachineHarness()
        harness.connect()
        harness.receive(.control(.shutdown(reason: "moved")))
        #expect(harness.takeReports().first == .shutDown(reason: "moved"))
        #expect(harness.machine.deadline == nil)
        harness { $0.goOnline(now: $1) }
        #expect(harness.opened.count == 1)
    }

    @Test(arguments: [
        "nonsense", "{}", "{\"t\":\"x\",\"d\":{}}", "{\"t\":\"d\",\"d\":{}}",
        "{\"t\":\"d\",\"d\":{\"r\":\"1\",\"b\":{\"s\":\"ok\"}}}",
        "{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"p\":\"a\",\"d\":{\".sv\":\"timestamp\"}}}}",
        "{\"t\":\"c\",\"d\":{\"t\":\"h\",\"d\":{\"ts\":1,\"v\":\"5\",\"h\":\"x\",\"s\":\"y\"}}}", "-5",
    ])
    func brokenMessagesEndTheConnection(text: String) {
        var harness = MachineHarness()
        harness.connect()
        harness.receive(text)
        #expect(harness.closes.count == 1)
        #expect(!harness.machine.isConnected)
        #expect(harness.machine.deadline != nil, "it comes back")
    }

    @Test func dataBeforeTheGreetingEndsTheConnection() {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        harness.receive(.push(.change(.put(.root, .int(1)), tag: nil)))
        #expect(harness.closes.count == 1)
        #expect(!harness.reports.contains { if case .changed = $0 { true } else { false } })
    }

    @Test func messagesThatAreTooLongEndTheConnection() {
        var harness = MachineHarness { $0.maxMessageBytes = 1_000 }
        harness.connect()
        harness.receive("3")
        harness.receive(String(repeating: " ", count: 600))
        #expect(harness.closes.isEmpty)
        harness.receive(String(repeating: " ", count: 600))
        #expect(harness.closes.count == 1)
    }

    @Test func odditiesAreReportedSeldomAndShort() {
        var harness = MachineHarness()
        harness.connect()
        for _ in 0..<1_000 { harness.receive(.push(.unknown(action: String(repeating: "é", count: 10_000)))) }
        for number in 0..<100 { harness.answer(Int64(number) + 500) }
        let notes = harness.takeReports().compactMap { report -> String? in
            if case .note(let text) = report { text } else { nil }
        }
        #expect(notes.count == 20)
        #expect(notes.allSatisfy { $0.utf8.count < 1_000 })
        #expect(harness.machine.isConnected)
    }
}
