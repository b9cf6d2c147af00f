import Foundation
import TestSupport
import Testing

@testable import PathmirrorClient

extension EndToEnd {
    @Suite struct Offline {
        @Test func writesWaitAndAreSeen() async throws {
            let ground = try Ground()
            let (ref, other) = (ground.client(), ground.client())
            let values = ref.recordValues()
            try await until("the listener is served") { values.events == ["null"] }
            ref.database.goOffline()
            let answered = Recorder<Int>()
            ref.child("a").setValue(1) { error, _ in answered.record(error == nil ? 1 : -1) }
            ref.child("b").setValue(2) { error, _ in answered.record(error == nil ? 2 : -2) }
            try await until("they are seen") { values.events.last == #"{"a":1,"b":2}"# }
            #expect(answered.events.isEmpty)
            #expect(try await other.getData().exists() == false)
            ref.database.goOnline()
            try await until("they are answered") { answered.events == [1, 2] }
            #expect(try await other.getData().json == #"{"a":1,"b":2}"#)
            #expect(values.events == ["null", #"{"a":1}"#, #"{"a":1,"b":2}"#])
        }

        @Test func whatOthersDidComesLater() async throws {
            let ground = try Ground()
            let (ref, other) = (ground.client(), ground.client())
            try await other.setValue(["a": 1, "b": 2])
            let seen = ref.recordChildren()
            try await until("it is served") { seen.events.count == 2 }
            ref.database.goOffline()
            try await other.updateChildValues(["a": NSNull(), "b": 3, "c": 4])
            ref.database.goOnline()
            try await until("it follows") { Set(seen.events.dropFirst(2)) == ["-a", "=b", "+c after b"] }
            #expect(seen.events.count == 5)
        }

        @Test func gettingWithoutConnection() async throws {
            let ground = try Ground()
            let ref = ground.client()
            try await ref.setValue(["a": 1])
            let values = ref.recordValues()
            try await until("it is served") { values.events.count == 1 }
            ref.database.goOffline()
            #expect(try await ref.getData().json == #"{"a":1}"#)
            #expect(try await ref.child("a").getData().json == "1")
            await #expect {
                try await ref.database.reference(withPath: "elsewhere").getData()
            } throws: { ($0 as? DatabaseError)?.code == .unavailable }
        }

        @Test func purgedWritesAreRolledBack() async throws {
            let ground = try Ground()
            let ref = ground.client()
            let values = ref.recordValues()
            try await until("it is served") { values.events == ["null"] }
            ref.database.goOffline()
            let answered = Recorder<Int>()
            ref.setValue(1) { error, _ in answered.record((error as? DatabaseError)?.code.rawValue ?? 0) }
            ref.database.purgeOutstandingWrites()
            try await until("it is taken back") { answered.events == [3] && values.events == ["null", "1", "null"] }
        }

        @Test func presence() async throws {
            let ground = try Ground()
            let (ref, other) = (ground.client(), ground.client())
            let seen = other.child("status").recordValues()
            try await ref.child("status").onDisconnectSetValue("offline")
            try await ref.child("kept").onDisconnectSetValue("wrong")
            try await ref.child("kept").cancelDisconnectOperations()
            try await ref.onDisconnectUpdateChildValues(["u/v": ServerValue.timestamp()])
            try await ref.child("status").setValue("online")
            try await until("it is online") { seen.events.last == "\"online\"" }
            ref.database.goOffline()
            try await until("it is offline") { seen.events.last == "\"offline\"" }
            let rest = try await other.getData()
            #expect(rest.childSnapshot(forPath: "u/v").value is NSNumber)
            #expect(!rest.hasChild("kept"))
        }

        /// A refused disconnect operation has no effect, neither at the server nor for the client's own listeners.
        @Test func refusedOperationsAreNotReported() async throws {
            let ground = try Ground()
            let ref = ground.gateway.client().reference(withPath: "readonly/presence")
            let values = ref.recordValues()
            try await until("the listener is served") { values.events == ["null"] }
            await #expect(throws: DatabaseError.self) { try await ref.onDisconnectSetValue(1) }
            ref.database.goOffline()
            ref.database.goOnline()
            #expect(try await ref.getData().exists() == false)
            #expect(values.events == ["null"])
        }

        /// Loaded data and unsent writes are available after a restart, before any connection.
        @Test func restarts() async throws {
            let ground = try Ground()
            let directory = TemporaryFolder.path("client-restart")
            defer { TemporaryFolder.remove(directory) }
            let first = ground.client(directory: directory)
            let other = ground.client()
            try await other.setValue(["a": 1, "b": 2])
            let values = first.recordValues()
            try await until("it is served") { values.events.last == #"{"a":1,"b":2}"# }
            first.database.goOffline()
            atOnce {
                first.child("c").setValue(3)
                first.updateChildValues(["a": NSNull(), "d": ServerValue.increment(1)])
            }
            try await until("they are seen") { values.events.last == #"{"b":2,"c":3,"d":1}"# }
            await first.database.app?.delete()

            let again = ground.restarted(first, directory: directory)
            again.database.goOffline()
            let later = again.recordValues()
            _ = try await again.getData()
            #expect(later.events == [#"{"b":2,"c":3,"d":1}"#])
            #expect(try await again.getData().json == #"{"b":2,"c":3,"d":1}"#)
            again.database.goOnline()
            let seen = other.recordValues()
            try await until("they are sent") { seen.events.last == #"{"b":2,"c":3,"d":1}"# }
            _ = try await again.getData()
            #expect(later.events == [#"{"b":2,"c":3,"d":1}"#])
            await again.database.app?.delete()
        }
    }
}

extension Ground {
    /// Restarts the app of a reference.
    func restarted(_ ref: DatabaseReference, directory: String) -> DatabaseReference {
        let name = ref.database.app?.name ?? ""
        let app = PathmirrorApp.configure(url: gateway.url, name: name, directory: URL(fileURLWithPath: directory))
        let database = Database.database(app: app)
        database.callbackQueue = DispatchQueue(label: "again")
        database.isPersistenceEnabled = true
        return database.reference(withPath: path)
    }
}
