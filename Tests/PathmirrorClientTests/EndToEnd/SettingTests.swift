import ClientSupport
import Dispatch
import Foundation
import Runtime
import Testing
import Tree

@testable import PathmirrorClient

extension EndToEnd {
    /// Checks the settings for the server, the database and the queue.
    @Suite(.timeLimit(.minutes(2))) struct Settings {
        @Test func useEmulator() async throws {
            let ground = try Ground()
            let port = try #require(ground.gateway.url.split(separator: ":").last.flatMap { Int($0) })
            let database = TestDatabases.make(url: "https://db.example.com?ns=default")
            database.useEmulator(withHost: "127.0.0.1", port: port)
            try await database.reference(withPath: ground.path).setValue("here")
            #expect(try await ground.client().getData().value as? String == "here")
            #expect(
                database.reference().url == "http://127.0.0.1:\(port)?ns=default"
                    || database.reference().url == ground.gateway.url)
            await database.app?.delete()
        }

        /// Each of an app's databases has its own data, listeners and connection.
        @Test func severalDatabases() async throws {
            let servers = try (0..<3).map { _ in try ModelGateway() }
            let first = TestDatabases.make(url: "http://127.0.0.1:\(servers[0].port)")
            let app = try #require(first.app)
            let databases =
                [first]
                + servers.dropFirst().map { server in
                    let database = Database.database(app: app, url: "http://127.0.0.1:\(server.port)")
                    database.callbackQueue = first.callbackQueue
                    return database
                }
            #expect(Database.database(app: app, url: "http://127.0.0.1:\(servers[1].port)") === databases[1])
            let values = databases.map { $0.reference(withPath: "a").recordValues() }
            for (number, database) in databases.enumerated() {
                try await database.reference(withPath: "a").setValue(number)
            }
            databases[1].goOffline()
            atOnce { databases[1].reference(withPath: "a").setValue("offline") }
            try await databases[2].reference(withPath: "a").setValue("online")
            #expect(servers.map { $0.tree[Path(splitting: "a")] } == [.int(0), .int(1), .string("online")])
            try await until("all is told") {
                values.map { $0.events.last } == ["0", #""offline""#, #""online""#]
            }
            databases[1].goOnline()
            try await until("it is sent") { servers[1].tree[Path(splitting: "a")] == .string("offline") }
            await app.delete()
        }

        /// Blocks and completions run only on this queue, one after the other, in the order of their events.
        @Test func callbackQueue() async throws {
            let ground = try Ground()
            let database = ground.gateway.client()
            let queue = DispatchQueue(label: "callbacks")
            let key = DispatchSpecificKey<Bool>()
            queue.setSpecific(key: key, value: true)
            database.callbackQueue = queue
            let ref = database.reference(withPath: ground.path)
            let reported = Recorder<String>()
            let running = MutexBox(0)
            @Sendable func note(_ text: String) {
                let others = running.withLock { running in
                    defer { running += 1 }
                    return running
                }
                reported.record(DispatchQueue.getSpecific(key: key) == true && others == 0 ? text : "wrong: \(text)")
                usleep(100)
                running.withLock { $0 -= 1 }
            }
            try await ref.setValue(["n": 0])
            atOnce { ref.observe(.value) { note("value \($0.childSnapshot(forPath: "n").json)") } }
            atOnce { ref.observe(.childChanged) { note("child \($0.json)") } }
            try await until("it is served") { reported.events == ["value 0"] }
            for number in 1...50 {
                atOnce { ref.child("n").setValue(number) { _, _ in note("done \(number)") } }
            }
            try await until("all are done") { reported.events.contains("done 50") }
            #expect(reported.events.filter { $0.hasPrefix("wrong") } == [])
            #expect(reported.events.filter { $0.hasPrefix("value") } == (0...50).map { "value \($0)" })
            #expect(reported.events.filter { $0.hasPrefix("child") } == (1...50).map { "child \($0)" })
            #expect(reported.events.filter { $0.hasPrefix("done") } == (1...50).map { "done \($0)" })
            for number in 1...50 {
                let index = { (text: String) in reported.events.firstIndex(of: "\(text) \(number)") ?? -1 }
                #expect(index("child") < index("value") && index("value") < index("done"))
            }
            await database.app?.delete()
        }
    }
}
