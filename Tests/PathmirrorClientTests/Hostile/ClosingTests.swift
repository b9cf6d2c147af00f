import ClientCore
import ClientSupport
import Foundation
import Runtime
import TestSupport
import Testing

@testable import PathmirrorClient

/// Checks that tasks that wait for a database are notified when it ends.
@Suite(.timeLimit(.minutes(3))) struct ClosingTests {
    @Test(arguments: [false, true]) func waitersAreNotified(isPersistent: Bool) async throws {
        let folder = TemporaryFolder.path("closing")
        defer { TemporaryFolder.remove(folder) }
        // This server greets and answers nothing.
        let server = try ScriptedServer { _, _ in }
        let database = TestDatabases.make(url: server.url, directory: folder)
        database.isPersistenceEnabled = isPersistent
        let ref = database.reference(withPath: "a")
        let ends = Recorder<String>()
        func note(_ what: String, _ body: @escaping @Sendable () async throws -> Void) -> Task<Void, Never> {
            Task {
                do {
                    try await body()
                    ends.record("\(what): done")
                } catch { ends.record("\(what): \((error as? DatabaseError)?.code as Any)") }
            }
        }
        let tasks = [
            note("write") { try await ref.setValue(1) },
            note("update") { try await ref.updateChildValues(["b": 1]) },
            note("transaction") {
                try await ref.child("t").runTransactionBlock { data in
                    data.value = 1
                    return .success(withValue: data)
                }
            },
            note("on disconnect") { try await ref.onDisconnectSetValue(1) },
            note("get") { _ = try await database.reference(withPath: "g").getData() },
            note("snapshots") { for try await _ in ref.snapshots {} },
            note("events") { for try await _ in ref.childEvents() {} },
        ]
        try await until("all of it is asked") { server.requests.events.count >= 6 }
        await database.app?.delete()
        for task in tasks { await task.value }
        let reported = Set(ends.events)
        #expect(
            reported == [
                "write: Optional(PathmirrorClient.DatabaseError.Code.disconnected)",
                "update: Optional(PathmirrorClient.DatabaseError.Code.disconnected)",
                "transaction: Optional(PathmirrorClient.DatabaseError.Code.disconnected)",
                "on disconnect: Optional(PathmirrorClient.DatabaseError.Code.disconnected)",
                "get: Optional(PathmirrorClient.DatabaseError.Code.unavailable)",
                "snapshots: done", "events: done",
            ])
    }

    @Test(arguments: [false, true]) func whatIsAskedAfterwardsIsRefused(isPersistent: Bool) async throws {
        let folder = TemporaryFolder.path("closed")
        defer { TemporaryFolder.remove(folder) }
        let database = TestDatabases.make(url: "http://127.0.0.1:1", directory: folder)
        database.isPersistenceEnabled = isPersistent
        database.goOffline()
        let ref = database.reference(withPath: "a")
        ref.observe(.value) { _ in }
        await database.app?.delete()
        let isUnavailable = { @Sendable (error: any Error) in (error as? DatabaseError)?.code == .unavailable }
        await #expect { try await ref.setValue(1) } throws: { isUnavailable($0) }
        await #expect { try await ref.getData() } throws: { isUnavailable($0) }
        await #expect { try await ref.onDisconnectRemoveValue() } throws: { isUnavailable($0) }
        await #expect {
            try await ref.runTransactionBlock { .success(withValue: $0) }
        } throws: { isUnavailable($0) }
        await #expect { for try await _ in ref.snapshots {} } throws: { isUnavailable($0) }
        atOnce { ref.setValue(2) }
        ref.keepSynced(true)
        ref.removeAllObservers()
        database.goOnline()
        database.purgeOutstandingWrites()
        await database.app?.delete()
    }

    /// An app that is created and deleted leaves nothing in memory, neither its database nor its thread.
    @Test func nothingIsLeft() async throws {
        let server = try ModelGateway()
        let lefts = MutexBox<[Left]>([])
        for _ in 0..<20 {
            let database = TestDatabases.make(url: "http://127.0.0.1:\(server.port)")
            let ref = database.reference(withPath: "a")
            ref.observe(.value) { _ in }
            try await ref.setValue(1)
            lefts.withLock { $0.append(Left(database: database, transport: database.app?.transport as AnyObject)) }
            await database.app?.delete()
        }
        try await until("they are freed") {
            lefts.withLock { $0.allSatisfy { $0.database == nil && $0.transport == nil } }
        }
    }

    // Safe: the referenced objects are Sendable, and a weak reference is read in one step.
    private struct Left: @unchecked Sendable {
        weak var database: Database?
        /// The transport, which is a class.
        weak var transport: AnyObject?
    }
}
