import Engine
import Runtime
import TestSupport
import Testing
import Tokens
import Tree

@testable import Gateway

/// Tests of logins of realtime clients, and of the listens that depend on them, over a scripted transport.
@Suite struct SessionLoginTests {
    private typealias Client = ScriptedClient

    private static let rules = #"""
        {"rules":{"users":{"$uid":{".read":"auth.uid == $uid",".write":"auth.uid == $uid"}},
        "members":{".read":"auth != null"},"open":{".read":true,".write":true}}}
        """#
    private static let secret = "a database's secret 0123456789 abcdefghi"

    private func login(_ uid: String) -> String {
        #"{"cred":"\#(JWT.mintUnsigned(["sub": .string(uid)]))"}"#
    }

    /// Logs in, and checks the answer.
    private func logIn(_ client: Client, _ uid: String) throws {
        let number = try client.ask("auth", login(uid))
        let answer = try client.next()
        #expect(answer.hasPrefix(#"{"t":"d","d":{"r":\#(number),"b":{"s":"ok","d":{"auth":{"#), "\(answer)")
        #expect(answer.contains(#""uid":"\#(uid)""#) && answer.hasSuffix(#""expires":null}}}}"#), "\(answer)")
    }

    private func listen(_ path: String) -> String { #"{"p":"\#(path)","h":""}"# }

    @Test func aLoginLetsIn() throws {
        try withBench(rules: Self.rules) { bench in
            let client = try bench.connect()
            try client.ask("g", #"{"p":"/users/ann"}"#, gives: "permission_denied", Client.denied)
            try logIn(client, "ann")
            try client.ask("g", #"{"p":"/users/ann"}"#, gives: "ok", "null")
            try client.ask("p", #"{"p":"/users/ann","d":1}"#, gives: "ok")
            try client.ask("p", #"{"p":"/users/bob","d":1}"#, gives: "permission_denied", Client.denied)
        }
    }

    @Test func requestsAfterALoginAreJudgedByIt() throws {
        try withBench(rules: Self.rules) { bench in
            let client = try bench.connect()
            let numbers = try client.askTogether([
                ("auth", login("ann")), ("p", #"{"p":"/users/ann","d":1}"#), ("unauth", "{}"),
                ("p", #"{"p":"/users/ann","d":2}"#),
            ])
            var answers: [String] = []
            for _ in 0..<4 { answers.append(try client.next()) }
            #expect(answers.contains(Client.ok(numbers[1])))
            #expect(answers.contains(Client.ok(numbers[2], #""unauthenticated""#)))
            #expect(answers.contains(Client.answer(numbers[3], "permission_denied", Client.denied)))
            #expect(try bench.value("users/ann") == "1")
        }
    }

    /// Checks that the client receives the cancellations of its listens before the answer.
    @Test func unauthenticatingEndsWhatRestsOnTheLogin() throws {
        try withBench(rules: Self.rules) { bench in
            let client = try bench.connect()
            try logIn(client, "ann")
            try client.ask("q", listen("/users/ann"), gives: "ok", "{}")
            try client.ask("q", listen("/open"), gives: "ok", "{}")
            let number = try client.ask("unauth")
            try client.expect(Client.cancel("users/ann"), Client.ok(number, #""unauthenticated""#))
            try bench.write("users/ann", "1")
            try bench.write("open", "2")
            try client.expect(Client.put("open", "2"))
        }
    }

    @Test func anotherUserKeepsWhatBothMayRead() throws {
        try withBench(rules: Self.rules) { bench in
            let client = try bench.connect()
            try logIn(client, "ann")
            try client.ask("q", listen("/users/ann"), gives: "ok", "{}")
            try client.ask("q", listen("/members"), gives: "ok", "{}")
            try client.ask("auth", login("bob"))
            try client.expect(Client.cancel("users/ann"))
            #expect(try client.next().contains(#""uid":"bob""#))
            try bench.write("members", "1")
            try client.expect(Client.put("members", "1"))
        }
    }

    /// Checks that a client with an invalid credential becomes anonymous, and that the answer precedes the
    /// cancellations.
    @Test func aRefusedLoginIsNobodys() throws {
        try withBench(rules: Self.rules) { bench in
            let client = try bench.connect()
            try logIn(client, "ann")
            try client.ask("q", listen("/users/ann"), gives: "ok", "{}")
            let number = try client.ask("auth", #"{"cred":"nonsense"}"#)
            #expect(try client.next().hasPrefix(#"{"t":"d","d":{"r":\#(number),"b":{"s":"invalid_token","#))
            try client.expect(Client.cancel("users/ann"))
            try client.ask("p", #"{"p":"/users/ann","d":1}"#, gives: "permission_denied", Client.denied)
        }
    }

    @Test func anAdministratorMayBeJudgedAsAnotherUser() throws {
        try withBench(rules: Self.rules) { bench in
            let client = try bench.connect()
            try client.ask("auth", #"{"cred":"owner"}"#, gives: "ok", #"{"auth":null,"expires":null}"#)
            try client.ask("p", #"{"p":"/anywhere","d":1}"#, gives: "ok")
            try client.ask(
                "auth", #"{"cred":"owner","authvar":{"uid":"ann"}}"#, gives: "ok",
                #"{"auth":{"uid":"ann"},"expires":null}"#)
            try client.ask("p", #"{"p":"/anywhere","d":2}"#, gives: "permission_denied", Client.denied)
            try client.ask("p", #"{"p":"/users/ann","d":2}"#, gives: "ok")
            try client.ask("auth", #"{"cred":"owner","noauth":true}"#, gives: "ok", #"{"auth":null,"expires":null}"#)
            try client.ask("p", #"{"p":"/users/ann","d":3}"#, gives: "permission_denied", Client.denied)
        }
    }

    @Test func anOverrideIsForAdministrators() throws {
        try withBench(rules: Self.rules) { bench in
            let client = try bench.connect()
            let token = JWT.mintUnsigned(["sub": "ann"])
            let number = try client.ask("auth", #"{"cred":"\#(token)","authvar":{"uid":"bob"}}"#)
            #expect(try client.next().hasPrefix(#"{"t":"d","d":{"r":\#(number),"b":{"s":"invalid_token","#))
            try client.ask("p", #"{"p":"/users/bob","d":1}"#, gives: "permission_denied", Client.denied)
        }
    }

    /// Checks that credentials that are only valid on the local machine are refused for remote clients.
    @Test func theOwnerIsOnThisMachine() throws {
        try withBench { bench in
            let client = try bench.connect(isLoopback: false, address: "192.0.2.1")
            for credential in ["owner", JWT.mintUnsigned(["sub": "ann"])] {
                let number = try client.ask("auth", #"{"cred":"\#(credential)"}"#)
                #expect(try client.next().hasPrefix(#"{"t":"d","d":{"r":\#(number),"b":{"s":"invalid_token","#))
            }
        }
    }

    // MARK: Expired logins

    private var signed: Gateway.Credentials {
        var credentials = Gateway.Credentials()
        credentials.databaseSecrets = ["test": [Secret(Array(Self.secret.utf8))]]
        credentials.clockSkewSeconds = 0
        return credentials
    }

    private func token(_ uid: String, lifeSeconds: Int64) -> String {
        let now = Clock.unixMilliseconds / 1_000
        return JWT.mint(
            ["v": 0, "iat": .integer(now), "exp": .integer(now + lifeSeconds), "d": .object(["uid": .string(uid)])],
            secret: Array(Self.secret.utf8))
    }

    @Test func aLoginExpires() throws {
        try withBench(rules: Self.rules, credentials: signed) { bench in
            let client = try bench.connect()
            let number = try client.ask("auth", #"{"cred":"\#(token("ann", lifeSeconds: 3_600))"}"#)
            #expect(try client.next().hasPrefix(#"{"t":"d","d":{"r":\#(number),"b":{"s":"ok","#))
            try client.ask("q", listen("/users/ann"), gives: "ok", "{}")
            let now = Clock.unixMilliseconds
            _ = try client.on { $0.recheckLogin(now: now + 3_000_000) }
            try client.expectNothing()
            _ = try client.on { $0.recheckLogin(now: now + 3_700_000) }
            try client.expect(
                #"{"t":"d","d":{"a":"ac","b":{"s":"expired_token","d":"Auth token is expired."}}}"#,
                Client.cancel("users/ann"))
            // The expiry is reported only once.
            _ = try client.on { $0.recheckLogin(now: now + 3_700_000) }
            try client.ask("p", #"{"p":"/users/ann","d":1}"#, gives: "permission_denied", Client.denied)
        }
    }

    @Test func anOldTokenIsRefused() throws {
        try withBench(rules: Self.rules, credentials: signed) { bench in
            let client = try bench.connect()
            let old = token("ann", lifeSeconds: -10)
            try client.ask("auth", #"{"cred":"\#(old)"}"#, gives: "expired_token", #""Auth token is expired.""#)
        }
    }

    @Test func aSecretThatIsTakenAwayEndsItsLogins() throws {
        try withBench(rules: Self.rules, credentials: signed) { bench in
            let client = try bench.connect()
            try client.ask("auth", #"{"cred":"\#(Self.secret)"}"#, gives: "ok", #"{"auth":null,"expires":null}"#)
            try client.ask("q", listen("/anywhere"), gives: "ok", "{}")
            bench.gateway.replaceSecrets(administrators: [], databases: ["test": [Secret(Array("another".utf8))]])
            // The sweep detects the replaced secret.
            try client.expect(
                #"{"t":"d","d":{"a":"ac","b":{"s":"expired_token","d":"Auth token is expired."}}}"#,
                Client.cancel("anywhere"))
        }
    }

    // MARK: Many listens

    /// Checks that requests after a login change wait until all listens are evaluated for the new login, however many
    /// there are.
    @Test func requestsWaitUntilAllListensAreJudged() throws {
        try withBench(rules: Self.rules) { bench in
            let client = try bench.connect()
            try logIn(client, "ann")
            let count = 1_200
            let numbers = try client.askTogether((0..<count).map { ("q", listen("/users/ann/k\($0)")) })
            for number in numbers { try client.expect(Client.ok(number, "{}")) }
            let end = try client.askTogether([("unauth", "{}"), ("s", "{}")])
            var messages: [String] = []
            repeat { messages.append(try client.next()) } while messages.last != Client.ok(end[1])
            #expect(messages.count == count + 2)
            #expect(messages.filter { $0.contains(#""a":"c""#) }.count == count)
            #expect(messages.contains(Client.ok(end[0], #""unauthenticated""#)))
            #expect(bench.gateway.metrics.listens.current == 0)
        }
    }
}
