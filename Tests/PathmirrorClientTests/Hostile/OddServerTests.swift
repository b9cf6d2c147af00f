import ClientCore
import ClientSupport
import Foundation
import Runtime
import TestSupport
import Testing
import Tree
import Wire

@testable import PathmirrorClient

/// Checks that an app survives defective or malicious servers, and uses their valid answers.
@Suite(.timeLimit(.minutes(3))) struct OddServerTests {
    private func database(_ server: ScriptedServer) -> Database {
        let database = TestDatabases.make(url: server.url)
        database.configure { $0.connection = { $0.firstRetry = 10 } }
        return database
    }

    /// The first connection's clock has a value that is not a usable time.
    @Test(arguments: ["1e30", "9223372036854775807", "-9223372036854775808", "9007199254740993", "\"now\"", "null"])
    func clocksThatShowNoTime(timestamp: String) async throws {
        let isFirst = MutexBox(true)
        let server = try ScriptedServer(timestamp: {
            isFirst.withLock { isFirst in
                defer { isFirst = false }
                return isFirst ? timestamp : "5000"
            }
        })
        let database = database(server)
        let offsets = database.reference(withPath: ".info/serverTimeOffset").recordValues()
        try await database.reference(withPath: "a").setValue(ServerValue.timestamp())
        #expect(server.connections.events.count == 2)
        #expect(offsets.events.count == 2, "the first connection's was not told: \(offsets.events)")
        await database.app?.delete()
    }

    /// The server's clock differs from the client's by as much as is accepted.
    @Test(arguments: ["9007199254740992", "-9007199254740992", "0"])
    func clocksThatAreFarAway(timestamp: String) async throws {
        let server = try ScriptedServer(timestamp: { timestamp })
        let database = database(server)
        let ref = database.reference(withPath: "a")
        let values = ref.recordValues()
        try await ref.setValue(ServerValue.timestamp())
        #expect(ref.childByAutoId().key?.utf8.count == 20)
        try await ref.runTransactionBlock { data in
            data.value = ServerValue.timestamp()
            return .success(withValue: data)
        }
        #expect(values.events.last?.isEmpty == false)
        await database.app?.delete()
    }

    /// The server answers twice, answers unknown requests, and sends data with unknown tags: valid data in between
    /// counts.
    @Test func answersThatBelongToNothing() async throws {
        let server = try ScriptedServer { request, peer in
            for number in [request.number + 1_000, 0, -1, .max] {
                ScriptedServer.say(#"{"t":"d","d":{"r":\#(number),"b":{"s":"ok","d":{}}}}"#, peer)
            }
            ScriptedServer.say(#"{"t":"d","d":{"a":"d","b":{"p":"a","d":99,"t":77}}}"#, peer)
            ScriptedServer.say(#"{"t":"d","d":{"a":"m","b":{"p":"other/place","d":{"x/y":1}}}}"#, peer)
            ScriptedServer.say(#"{"t":"d","d":{"a":"rm","b":{"p":"other","d":[{"s":"z","e":"a","m":{}}]}}}"#, peer)
            ScriptedServer.say(#"{"t":"d","d":{"a":"c","b":{"p":"nowhere"}}}"#, peer)
            ScriptedServer.say(#"{"t":"d","d":{"a":"huh","b":{}}}"#, peer)
            ScriptedServer.say(#"{"t":"c","d":{"t":"huh","d":{}}}"#, peer)
            if case .listen = request.action { ScriptedServer.put("a", #""good""#, peer) }
            ScriptedServer.accept(request, peer)
            ScriptedServer.accept(request, peer)
        }
        let database = database(server)
        let ref = database.reference(withPath: "a")
        let values = ref.recordValues()
        try await until("the data comes") { values.events == [#""good""#] }
        try await database.reference(withPath: "b").setValue(1)
        #expect(server.connections.events.count == 1)
        await database.app?.delete()
    }

    /// A server without data for a listen only acknowledges it, after the answers to earlier writes at that path: the
    /// path's value is then null, not the value of the first write.
    @Test func answeredWritesLeaveNothing() async throws {
        let held = MutexBox([ClientRequest]())
        let server = try ScriptedServer { request, peer in
            guard request.action.isAboutA else { return ScriptedServer.accept(request, peer) }
            let all = held.withLock { held in
                held.append(request)
                return held.count < 3 ? [] : held
            }
            for request in all { ScriptedServer.accept(request, peer) }
        }
        let database = database(server)
        let ref = database.reference(withPath: "a/x")
        atOnce {
            ref.setValue("old")
            database.reference(withPath: "a").removeValue()
        }
        // There are more than two if a busy machine made the client connect twice.
        try await until("the writes have come") { held.withLock { $0.count } >= 2 }
        let values = ref.recordValues()
        try await database.reference(withPath: "b").setValue(1)
        #expect(values.events.last == "null")
        await database.app?.delete()
    }

    /// Each text is not a valid message: the connection ends, and the next one works.
    @Test(arguments: [
        #"{"t":"d","d":{"a":"d","b":{"p":"a","d":"# + String(repeating: #"{"a":"#, count: 2_000) + "1"
            + String(repeating: "}", count: 2_000) + "}}}",
        String(repeating: "[", count: 100_000), "-5", "nonsense", #"{"t":"d"}"#, #"{"t":"d","d":{"a":"d"}}"#,
        #"{"t":"d","d":{"a":"d","b":{"p":"a.b","d":1}}}"#,
        #"{"t":"d","d":{"a":"d","b":{"p":"a","d":{"\#(String(repeating: "k", count: 769))":1}}}}"#,
        #"{"t":"c","d":{"t":"h","d":{"ts":1,"v":"5","h":"127.0.0.1","s":"s"}}}"#,
    ])
    func messagesThatAreNone(text: String) async throws {
        let isFirst = MutexBox(true)
        let server = try ScriptedServer { request, peer in
            let isBad = isFirst.withLock { isFirst in
                defer { isFirst = false }
                return isFirst
            }
            if isBad {
                ScriptedServer.say(text, peer)
            } else {
                ScriptedServer.put("a", "1", peer)
                ScriptedServer.accept(request, peer)
            }
        }
        let database = database(server)
        let values = database.reference(withPath: "a").recordValues()
        try await until("the data comes") { values.events == ["1"] }
        #expect(server.connections.events.count == 2)
        await database.app?.delete()
    }

    /// Data without a listen is neither delivered nor kept.
    @Test func dataWithoutListeners() async throws {
        let folder = TemporaryFolder.path("odd-server")
        defer { TemporaryFolder.remove(folder) }
        let server = try ScriptedServer { request, peer in
            for number in 0..<100 { ScriptedServer.put("other/\(number)", #""unasked""#, peer) }
            if case .listen = request.action { ScriptedServer.put("a", "1", peer) }
            ScriptedServer.accept(request, peer)
        }
        let database = TestDatabases.make(url: server.url, directory: folder)
        database.isPersistenceEnabled = true
        let values = database.reference(withPath: "a").recordValues()
        try await until("the data comes") { values.events == ["1"] }
        database.goOffline()
        await #expect(throws: DatabaseError.self) { try await database.reference(withPath: "other/1").getData() }
        await database.app?.delete()
    }

    /// The server greets, and answers nothing more.
    @Test func aServerThatNeverAnswers() async throws {
        let server = try ScriptedServer { _, _ in }
        let database = TestDatabases.make(url: server.url)
        database.configure {
            $0.connection = {
                $0.firstRetry = 10
                $0.pingWhenOwed = 50
                $0.pongTimeout = 50
            }
        }
        let ref = database.reference(withPath: "a")
        let values = ref.recordValues()
        atOnce { ref.setValue(1) }
        await #expect(throws: DatabaseError.self) { try await database.reference(withPath: "b").getData() }
        try await until("it is left, and tried again") { server.connections.events.count >= 3 }
        #expect(values.events == ["1"])
        await database.app?.delete()
    }

    /// The cost of a wide value is linear in its size.
    @Test func aMillionChildren() async throws {
        let json = "{" + (0..<1_000_000).map { "\"\($0)k\":\($0)" }.joined(separator: ",") + "}"
        let server = try ScriptedServer { request, peer in
            if case .listen = request.action { ScriptedServer.put("a", json, peer) }
            ScriptedServer.accept(request, peer)
        }
        let database = database(server)
        for try await snapshot in database.reference(withPath: "a").snapshots {
            #expect(snapshot.childrenCount == 1_000_000)
            break
        }
        await database.app?.delete()
    }
}

extension ClientAction {
    /// Whether the action reads or writes at `a` or below.
    fileprivate var isAboutA: Bool {
        let path: Path? =
            switch self {
            case .listen(let target, _, _, _): target.path
            case .put(let path, _, _, _): path
            default: nil
            }
        return path?.keys.first == Key("a")
    }
}
