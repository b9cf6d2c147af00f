import ClientCore
import Testing
import Tree
import Wire

/// Checks the settings of a client that follows a whole database for a long time.
@Suite struct FollowingSettingsTests {
    private static func loginAnswer(expires seconds: Int64) -> String {
        "{\"auth\":null,\"expires\":\(1_700_000_000 + seconds)}"
    }

    private func pauses(_ change: (inout ConnectionSettings) -> Void) -> [Int64] {
        var harness = MachineHarness(change)
        harness { $0.goOnline(now: $1) }
        var pauses: [Int64] = []
        for _ in 0..<20 {
            harness.receive(.closed(.unreachable("nobody there")))
            for case .connectFailed(_, let pause) in harness.takeReports() { pauses.append(pause) }
            harness.passTime(to: harness.machine.deadline ?? 0)
        }
        return pauses
    }

    @Test func pausesGrowByTheFactor() {
        let exact = pauses {
            $0.retryFactor = 1.3
            $0.retryJitter = 0
        }
        #expect(exact.prefix(5) == [1_000, 1_300, 1_690, 2_197, 2_856])
        #expect(exact.last == 30_000)
        let random = pauses {
            $0.retryFactor = 1.3
            $0.retryJitter = 1
        }
        #expect(zip(random, exact).allSatisfy { $0 <= $1 })
        #expect(random.suffix(8).contains { $0 < 15_000 })
        // Values without sense are limited.
        #expect(
            pauses {
                $0.retryFactor = 0
                $0.retryJitter = -1
            }.allSatisfy { $0 == 1_000 })
        #expect(pauses { $0.retryJitter = 5 }.allSatisfy { (0...30_000).contains($0) })
    }

    // MARK: Tokens

    private func signedIn(expires seconds: Int64, _ change: (inout ConnectionSettings) -> Void) -> MachineHarness {
        var harness = MachineHarness(change)
        harness.hash = "known"
        harness.token = .some(AuthRequest(credential: "ya29.first", isGoogle: true))
        harness { $0.listen(spec("/"), tag: nil, now: $1) }
        harness { $0.goOnline(now: $1) }
        harness.greet()
        harness.answer(1, "ok", Self.loginAnswer(expires: seconds))
        harness.answer(2, "ok", "{}")
        harness.token = .none
        return harness
    }

    @Test func anAdministratorsTokenIsSentAsSuch() {
        var harness = signedIn(expires: 3_600) { _ in }
        #expect(harness.takeTexts().first?.contains(#""a":"gauth","b":{"cred":"ya29.first"}"#) == true)
    }

    @Test(arguments: [(3_600, 3_300), (1_200, 900), (900, 600), (600, 300), (599, 449), (20, 15)])
    func tokensAreRenewedInTime(life: Int64, renewal: Int64) {
        var harness = signedIn(expires: life) {
            $0.renewalMargin = 300_000
            $0.shortTokenLife = 600_000
        }
        let start = harness.now
        while harness.tokenQuestions.count < 2, harness.now < start + life * 1_000 {
            harness.passTime(to: harness.now + 500)
            harness.receive(.progress(unfinished: 0))
        }
        #expect((renewal * 1_000 - 1_000...renewal * 1_000 + 1_000).contains(harness.now - start))
        #expect(harness.tokenQuestions == [false, true])
    }

    /// The new token is sent over the connection, and nothing else: no listen, no data.
    @Test func aRenewalDoesNotListenAgain() {
        var harness = signedIn(expires: 20) { _ in }
        for round in 0..<30 {
            _ = harness.takeReports()
            _ = harness.takeTexts()
            let asked = harness.tokenQuestions.count
            while harness.tokenQuestions.count == asked {
                harness.passTime(to: harness.now + 500)
                harness.receive(.progress(unfinished: 0))
            }
            #expect(harness.machine.isConnected)
            harness { $0.tokenProvided(AuthRequest(credential: "ya29.\(round)", isGoogle: true), now: $1) }
            let requests = harness.takeRequests()
            #expect(requests.count == 1)
            guard case .authenticate(let login)? = requests.first?.action else {
                Issue.record("no login")
                return
            }
            #expect(login.credential == "ya29.\(round)" && login.isGoogle)
            let end = (harness.now - 1_000) / 1_000 + 20
            harness.answer(requests.first?.number ?? 0, "ok", Self.loginAnswer(expires: end))
            #expect(harness.takeRequests().isEmpty)
            let reports = harness.takeReports()
            #expect(reports.count == 1)
            if case .signedIn? = reports.first {} else { Issue.record("\(reports)") }
        }
        #expect(harness.opened.count == 1)
    }

    /// Without a new token, the connection stays until the server ends it.
    @Test func withoutANewTokenTheConnectionStays() {
        var harness = signedIn(expires: 20) { _ in }
        _ = harness.takeReports()
        for _ in 0..<200 {
            harness.passTime(to: harness.now + 500)
            harness.receive(.progress(unfinished: 0))
        }
        harness { $0.tokenFailed(reason: "the token server is down", now: $1) }
        #expect(harness.machine.isConnected)
        #expect(harness.takeReports() == [.tokenMissing(reason: "the token server is down")])
        harness.receive(.push(.authRevoked(.expiredToken, explanation: "Auth token is expired.")))
        #expect(!harness.machine.isConnected)
        let reports = harness.takeReports()
        #expect(
            reports.first
                == .signInFailed(RequestFailure(status: .expiredToken, explanation: "Auth token is expired."), count: 1)
        )
        if case .disconnected? = reports.last {} else { Issue.record("\(reports)") }
        // The next connection needs another token, and the listen comes back with its hash.
        harness.passTime(to: harness.machine.deadline ?? 0)
        #expect(harness.tokenQuestions == [false, true, true])
        harness { $0.tokenProvided(AuthRequest(credential: "ya29.new", isGoogle: true), now: $1) }
        _ = harness.takeTexts()
        harness.greet()
        harness.answer(1, "ok", Self.loginAnswer(expires: 3_600))
        #expect(harness.takeTexts().last?.contains(#""h":"known""#) == true)
    }

    // MARK: Shutdown

    @Test func aDatabaseThatWasShutDownIsTriedLate() {
        var harness = MachineHarness { $0.retriesAfterShutdown = 600_000 }
        harness.connect()
        for _ in 0..<3 {
            let before = harness.opened.count
            harness.receive(.control(.shutdown(reason: "moved")))
            #expect(harness.takeReports().first == .shutDown(reason: "moved"))
            #expect(harness.machine.deadline == harness.now + 600_000)
            harness.passTime(to: harness.now + 599_999)
            #expect(harness.opened.count == before)
            harness.passTime(to: harness.now + 1)
            #expect(harness.opened.count == before + 1)
            harness.greet()
            _ = harness.takeReports()
        }
        // Before the greeting, too; and the owner may try at once.
        harness.receive(.closed(.broken("")))
        harness.passTime(to: harness.machine.deadline ?? 0)
        harness.receive(.control(.shutdown(reason: "moved")))
        #expect(harness.machine.deadline == harness.now + 600_000)
        harness { $0.goOnline(now: $1) }
        harness.greet()
        #expect(harness.machine.isConnected)
    }

    // MARK: Silence

    @Test func aSilentConnectionEnds() {
        var harness = MachineHarness {
            $0.silence = 90_000
            $0.pingWhenIdle = 1_000_000
        }
        harness.connect()
        let start = harness.now
        harness.passTime(to: start + 89_999)
        #expect(harness.machine.isConnected)
        harness.receive(.progress(unfinished: 0))
        harness.passTime(to: start + 179_998)
        #expect(harness.machine.isConnected)
        harness.passTime(to: start + 179_999)
        #expect(!harness.machine.isConnected)
        #expect(harness.closes.last?.contains("silent") == true)
    }

    /// An owner that does not read must not take the silence for the server's.
    @Test func aPauseOfReadingIsNoSilence() {
        var harness = MachineHarness { $0.silence = 90_000 }
        harness.connect()
        harness { $0.setReadingPaused(true, now: $1) }
        harness.passTime(to: harness.now + 1_000_000)
        #expect(harness.machine.isConnected)
        #expect(harness.takeTexts().allSatisfy { $0 == "0" })
        harness { $0.setReadingPaused(false, now: $1) }
        let start = harness.now
        harness.passTime(to: start + 79_999)
        #expect(harness.machine.isConnected)
        harness.passTime(to: start + 80_000)
        #expect(!harness.machine.isConnected)
    }

    // MARK: Refusals and errors

    @Test func aListenThatIsTooLargeIsRefused() {
        var harness = MachineHarness()
        harness.connect()
        harness { $0.listen(spec("/"), tag: nil, now: $1) }
        harness.answer(1, "too_big", "\"Data requested exceeds the maximum size.\"")
        let failure = RequestFailure(status: .tooBig, explanation: "Data requested exceeds the maximum size.")
        #expect(harness.takeReports() == [.listenRefused(spec("/"), tag: nil, failure)])
        #expect(harness.machine.isConnected)
        // It does not come back with the next connection.
        harness.receive(.closed(.broken("")))
        harness.passTime(to: harness.machine.deadline ?? 0)
        _ = harness.takeRequests()
        harness.greet()
        #expect(harness.takeRequests().isEmpty)
    }

    @Test func aServersErrorIsReportedBeforeTheEnd() {
        var harness = MachineHarness()
        harness.connect()
        harness.receive(.control(.error("Payload is too large.")))
        harness.receive(.closed(.byPeer(code: 1009, reason: "")))
        let reports = harness.takeReports()
        #expect(reports.first == .serverError("Payload is too large."))
        if case .disconnected? = reports.last {} else { Issue.record("\(reports)") }
        // Errors are limited in length and number.
        harness.passTime(to: harness.machine.deadline ?? 0)
        harness.greet()
        _ = harness.takeReports()
        for _ in 0..<100 { harness.receive(.control(.error(String(repeating: "x", count: 100_000)))) }
        let errors = harness.takeReports()
        #expect(errors.count == 20)
        for case .serverError(let text) in errors { #expect(text.utf8.count < 1_100) }
    }

    @Test func receivedBytesAreCounted() {
        var harness = MachineHarness()
        #expect(harness.machine.receivedBytes == 0)
        harness { $0.goOnline(now: $1) }
        harness.receive("0")
        #expect(harness.machine.receivedBytes == 3)
        harness.greet()
        let greeted = harness.machine.receivedBytes
        harness { $0.goOffline(now: $1) }
        // What an ended connection delivers has been received as well.
        harness.receive(String(repeating: " ", count: 126))
        harness.receive(String(repeating: " ", count: 65_536))
        harness.receive(.progress(unfinished: 0))
        #expect(harness.machine.receivedBytes == greeted + 130 + 65_546)
    }
}
