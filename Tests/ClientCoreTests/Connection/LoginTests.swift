import ClientCore
import Testing
import Tree
import Wire

/// Checks that nothing is sent before the login is settled, and that the login follows the app's tokens.
@Suite struct LoginTests {
    private static let user = AuthRequest(token: "a.b.c")
    private static let other = AuthRequest(token: "d.e.f")

    private func online(token: AuthRequest?? = .some(Self.user)) -> MachineHarness {
        var harness = MachineHarness()
        harness.token = token
        harness { $0.listen(spec("/a"), tag: nil, now: $1) }
        harness { $0.write(write(1), now: $1) }
        harness { $0.goOnline(now: $1) }
        harness.greet()
        return harness
    }

    private func logins(_ requests: [ClientRequest]) -> [String] {
        requests.compactMap { if case .authenticate(let login) = $0.action { login.credential } else { nil } }
    }

    @Test func tokensOfUsersAndOfAdministrators() {
        #expect(!AuthRequest(token: "a.b.").isGoogle)
        #expect(AuthRequest(token: "owner").isGoogle)
    }

    @Test func logsInFirstAndSendsTheRestThen() {
        var harness = online()
        #expect(harness.tokenQuestions == [false])
        let first = harness.takeRequests()
        #expect(first.count == 1)
        #expect(logins(first) == ["a.b.c"])
        harness.answer(1, "ok", "{\"auth\":{\"uid\":\"u\"},\"expires\":null}")
        let rest = harness.takeRequests().map(\.action)
        #expect(rest.count == 2)
        if case .listen = rest.first {} else { Issue.record("the listen comes first") }
        if case .put = rest.last {} else { Issue.record("then the write") }
        #expect(harness.reports.contains { if case .signedIn(.some) = $0 { true } else { false } })
    }

    @Test func waitsForTheTokenAndNotForEver() {
        var harness = online(token: .none)
        #expect(harness.takeRequests().isEmpty)
        harness.passTime(to: harness.now + 30_000)
        #expect(harness.closes.count == 1)
        #expect(harness.reports.contains { if case .tokenMissing = $0 { true } else { false } })
        // The app has signed in at last.
        let before = harness.opened.count
        harness { $0.tokenProvided(Self.user, now: $1) }
        #expect(harness.opened.count == before + 1)
        harness.greet()
        #expect(logins(harness.takeRequests()) == ["a.b.c"])
    }

    @Test func nothingIsSentWhileThereIsNoToken() {
        var harness = online(token: .none)
        harness { $0.tokenFailed(reason: "no network", now: $1) }
        #expect(harness.takeRequests().isEmpty)
        #expect(!harness.machine.isConnected)
        #expect(harness.machine.deadline != nil)
        harness.passTime(to: harness.machine.deadline ?? 0)
        #expect(harness.tokenQuestions == [false, false], "asked again, and not for another one")
    }

    @Test func aRefusedLoginIsTriedAgainWithAnotherToken() {
        var harness = online()
        var pauses: [Int64] = []
        for _ in 0..<3 {
            let number = harness.takeRequests().last?.number ?? 0
            harness.answer(number, "expired_token", "\"too late\"")
            pauses.append((harness.machine.deadline ?? 0) - harness.now)
            harness.passTime(to: harness.machine.deadline ?? 0)
            harness.greet()
        }
        #expect(harness.tokenQuestions == [false, true, true, true])
        #expect(pauses[0] <= 1_000)
        #expect(pauses[2] >= 15_000, "not soon again after the third")
        let counts = harness.takeReports().compactMap { report -> Int? in
            if case .signInFailed(let failure, let count) = report, failure.explanation == "too late" {
                count
            } else {
                nil
            }
        }
        #expect(counts == [1, 2, 3])
        // The server accepts a token at last, and then the network fails.
        harness.answer(harness.takeRequests().last?.number ?? 0)
        harness.receive(.closed(.broken("cut")))
        #expect((harness.machine.deadline ?? 0) - harness.now <= 1_000)
    }

    @Test func aRevokedLoginBringsANewConnectionWithANewToken() {
        var harness = online()
        harness.answer(1)
        harness.receive(.push(.authRevoked(.expiredToken, explanation: "over")))
        #expect(!harness.machine.isConnected)
        harness.passTime(to: harness.machine.deadline ?? 0)
        #expect(harness.tokenQuestions == [false, true])
    }

    @Test func aNewTokenIsSentOverTheConnectionThatStands() {
        var harness = online()
        harness.answer(1)
        _ = harness.takeRequests()
        harness { $0.tokenProvided(Self.user, now: $1) }
        #expect(harness.takeRequests().isEmpty, "the same")
        harness { $0.tokenProvided(Self.other, now: $1) }
        #expect(logins(harness.takeRequests()) == ["d.e.f"])
        harness { $0.tokenProvided(nil, now: $1) }
        #expect(harness.takeRequests().map(\.action) == [.unauthenticate])
        // Only the newest login's answer counts.
        _ = harness.takeReports()
        harness.answer(4, "invalid_token")
        #expect(harness.machine.isConnected)
        harness.answer(5)
        #expect(harness.takeReports() == [.signedOut])
    }

    @Test func aTokenThatEndsSoonIsReplacedBefore() {
        var harness = online()
        harness.token = .none
        // The server's clock said 1,700,000,000 s; the token expires ten minutes later.
        harness.answer(1, "ok", "{\"auth\":{\"uid\":\"u\"},\"expires\":1700000600}")
        harness.answer(2)
        harness.answer(3)
        _ = harness.takeTexts()
        let start = harness.now
        while harness.now < start + 539_000 {
            harness.passTime(to: harness.now + 1_000)
            harness.receive(.progress(unfinished: 0))
        }
        #expect(harness.tokenQuestions == [false])
        harness.passTime(to: start + 541_000)
        #expect(harness.tokenQuestions == [false, true])
        _ = harness.takeTexts()
        harness { $0.tokenProvided(Self.other, now: $1) }
        #expect(logins(harness.takeRequests()) == ["d.e.f"])
    }

    @Test(arguments: ["9223372036854775807", "-9223372036854775808", "0", "99999999999999"])
    func odd(expiry: String) {
        var harness = online()
        harness.answer(1, "ok", "{\"auth\":{},\"expires\":\(expiry)}")
        #expect(harness.machine.isConnected)
        #expect(harness.machine.deadline.map { $0 <= harness.now + 60_000 } == true)
    }

    @Test func writesCanBeHeldWhileGetsGo() {
        var harness = MachineHarness()
        harness { $0.holdWrites(true, now: $1) }
        harness.connect()
        harness { $0.write(write(1), now: $1) }
        harness { $0.onDisconnectPut(RequestID(rawValue: 1), at: Path(splitting: "/p"), .bool(true), now: $1) }
        harness { $0.get(RequestID(rawValue: 2), spec("/a"), now: $1) }
        #expect(harness.takeRequests().map(\.action) == [.get(Path(splitting: "/a"), nil)])
        harness { $0.holdWrites(false, now: $1) }
        #expect(harness.takeRequests().count == 2)
    }

    @Test func appCheckTokensAreSentBeforeTheLogin() {
        var harness = MachineHarness()
        harness.token = .some(Self.user)
        harness { $0.setAppCheckToken("genuine", now: $1) }
        harness { $0.goOnline(now: $1) }
        harness.greet()
        let actions = harness.takeRequests().map(\.action)
        #expect(actions.first == .appCheck(token: "genuine"))
        #expect(actions.count == 2)
        harness.answer(1, "invalid_token")
        #expect(harness.machine.isConnected)
        harness.receive(.push(.appCheckRevoked(.expiredToken, explanation: "")))
        #expect(harness.appCheckQuestions == 1)
    }
}
