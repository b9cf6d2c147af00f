import ClientSupport
import Dispatch
import Foundation
import Runtime
import TestSupport
import Testing
import Tree

@testable import PathmirrorClient

/// Checks apps that call the library from within callbacks, block, and write values that can't be stored.
@Suite(.timeLimit(.minutes(3))) struct CarelessAppTests {
    @Test func callsWithinCallbacks() async throws {
        let server = try ModelGateway()
        let database = TestDatabases.make(url: "http://127.0.0.1:\(server.port)")
        let ref = database.reference(withPath: "a")
        let seen = Recorder<String>()
        let handle = Condition<DatabaseHandle?>(nil)
        atOnce {
            let number = ref.observe(.value) { snapshot in
                seen.record(snapshot.json)
                // The callback listens, writes, and removes its own observer.
                // The handle may not have been returned yet.
                ref.removeObserver(withHandle: handle.wait(milliseconds: 60_000) { $0 } ?? 0)
                ref.child("written").setValue(seen.events.count)
                ref.observeSingleEvent(of: .value) { seen.record("once \($0.json)") }
                ref.child("counter").runTransactionBlock(
                    { data in
                        ref.child("from-block").setValue(true)
                        ref.child("nested").runTransactionBlock { data in
                            data.value = "nested"
                            return .success(withValue: data)
                        }
                        data.value = (data.value as? Int ?? 0) + 1
                        return .success(withValue: data)
                    },
                    andCompletionBlock: { _, isCommitted, _ in
                        seen.record("committed \(isCommitted)")
                        ref.removeAllObservers()
                        database.purgeOutstandingWrites()
                    })
            }
            handle.broadcast { $0 = number }
        }
        try await until("the transaction has ended") { seen.events.contains("committed true") }
        #expect(seen.events.filter { !$0.hasPrefix("once") && !$0.hasPrefix("committed") }.count == 1)
        try await ref.child("last").setValue(1)
        let value = server.tree.child(Key("a"))
        #expect(value.child(Key("written")) == .int(1))
        #expect(value.child(Key("counter")) == .int(1))
        await database.app?.delete()
    }

    /// Each transaction block writes to the other's database, and a write returns when it is on disk.
    @Test func transactionsThatWriteToEachOthersDatabases() async throws {
        let folder = TemporaryFolder.path("careless")
        defer { TemporaryFolder.remove(folder) }
        let databases = ["one", "two"].map { name in
            let database = TestDatabases.make(url: "http://127.0.0.1:1?ns=\(name)", directory: folder)
            database.isPersistenceEnabled = true
            database.goOffline()
            return database
        }
        let meeting = Condition(0)
        let done = Recorder<Int>()
        for (index, database) in databases.enumerated() {
            let other = databases[1 - index].reference(withPath: "from-\(index)")
            atOnce {
                database.reference(withPath: "a").runTransactionBlock { data in
                    // Both are in their blocks before either writes.
                    meeting.broadcast { $0 += 1 }
                    _ = meeting.wait(milliseconds: 30_000) { $0 >= 2 ? true : nil }
                    other.setValue(index)
                    done.record(index)
                    return .abort()
                }
            }
        }
        try await until("both have written") { done.events.count == 2 }
        for (index, database) in databases.enumerated() {
            for try await snapshot in database.reference(withPath: "from-\(1 - index)").snapshots {
                #expect(snapshot.value as? Int == 1 - index)
                break
            }
            await database.app?.delete()
        }
    }

    @Test func valuesWithinValues() async throws {
        let ref = TestDatabases.offline().reference(withPath: "a")
        for name in [".value", ".priority", "child"] {
            let code = Recorder<DatabaseError.Code?>()
            atOnce {
                var value: Any = 1
                for _ in 0..<1_000 { value = [name: value] as [String: Any] }
                ref.setValue(value) { error, _ in code.record((error as? DatabaseError)?.code) }
            }
            try await until("it is told") { code.events == [.invalidArgument] }
        }
    }

    /// The app sends a thousand gets that the server never answers.
    @Test func manyQuestions() async throws {
        let database = TestDatabases.make(url: "http://127.0.0.1:1")
        let answers = Recorder<Int>()
        for number in 0..<1_000 {
            database.reference(withPath: "\(number)").getData { error, _ in answers.record(error == nil ? 1 : 0) }
        }
        database.goOffline()
        try await until("all are answered") { answers.events.count == 1_000 }
        #expect(!answers.events.contains(1))
        await database.app?.delete()
    }

    @Test func comingAndGoing() async throws {
        let server = try ModelGateway()
        let database = TestDatabases.make(url: "http://127.0.0.1:\(server.port)")
        let ref = database.reference(withPath: "a")
        let values = ref.recordValues()
        for number in 0..<300 {
            database.goOffline()
            atOnce { ref.setValue(number) }
            database.goOnline()
        }
        try await ref.setValue(300)
        #expect(server.tree.child(Key("a")) == .int(300))
        #expect(values.events.suffix(1) == ["300"])
        await database.app?.delete()
    }
}
