import Foundation
import TestSupport
import Testing

@testable import PathmirrorClient

extension EndToEnd {
    @Suite struct Refusals {
        @Test func refusedWritesRollBack() async throws {
            let gateway = try #require(TestGateway.current)
            let ref = gateway.client().reference(withPath: "readonly/x")
            let values = ref.recordValues()
            try await until("the listener is served") { values.events == ["null"] }
            await #expect {
                try await ref.setValue(1)
            } throws: { ($0 as? DatabaseError)?.code == .permissionDenied && ($0 as NSError).code == 1 }
            #expect(values.events == ["null", "1", "null"])
            let valid = gateway.client().reference(withPath: "valid")
            try await valid.setValue(5)
            await #expect(throws: DatabaseError.self) { try await valid.setValue("text") }
            #expect(try await valid.getData().value as? Int == 5)
        }

        @Test func refusedListensEnd() async throws {
            let gateway = try #require(TestGateway.current)
            let ref = gateway.client().reference(withPath: "secret")
            let errors = Recorder<Int>()
            ref.observe(.value, with: { _ in errors.record(-1) }, withCancel: { errors.record(($0 as NSError).code) })
            try await until("it ends") { errors.events == [1] }
            await #expect(throws: DatabaseError.self) { try await ref.getData() }
            await #expect(throws: DatabaseError.self) { for try await _ in ref.snapshots {} }
        }

        /// A refusal without a listener for it is logged to standard error, so that the developer sees why no data
        /// arrives.
        @Test func refusedListensAndLostServersAreInTheLog() async throws {
            let gateway = try #require(TestGateway.current)
            let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
                [url = gateway.url as String] in
                let ref = TestDatabases.make(url: url).reference(withPath: "secret")
                ref.observe(.value) { _ in }
                let nowhere = TestDatabases.make(url: "http://127.0.0.1:1")
                nowhere.reference().observe(.value) { _ in }
                // A second listener has a cancel block: refusals come in order.
                await #expect(throws: DatabaseError.self) { for try await _ in ref.snapshots {} }
                await #expect(throws: DatabaseError.self) { try await nowhere.reference().getData() }
            }
            let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
            #expect(text.contains("warning A listener was cancelled: The rules don't allow reading /secret."))
            #expect(text.components(separatedBy: "There is no connection to http://127.0.0.1:1").count == 2)
        }

        @Test func invalidValuesAreErrorsForTheCaller() async throws {
            let ref = TestDatabases.offline().reference()
            await #expect {
                try await ref.setValue(["a.b": 1])
            } throws: { ($0 as? DatabaseError)?.code == .invalidArgument }
            await #expect(throws: DatabaseError.self) { try await ref.updateChildValues(["a": 1, "a/b": 2]) }
            await #expect(throws: DatabaseError.self) {
                try await ref.database.reference(withPath: ".info/connected").setValue(1)
            }
        }

        @Test func tokens() async throws {
            let gateway = try #require(TestGateway.current)
            let user = Recorder<String>()
            let asked = Recorder<Bool>()
            let database = gateway.client(tokenProvider: { isForced in
                asked.record(isForced)
                return user.events.last.map { Self.token($0) }
            })
            await #expect(throws: DatabaseError.self) {
                try await database.reference(withPath: "users/ada").setValue(1)
            }
            // On a machine that is too busy to answer in time, the provider is called again.
            #expect(!asked.events.isEmpty && !asked.events.contains(true))
            user.record("ada")
            database.app?.tokenDidChange()
            try await database.reference(withPath: "users/ada").setValue(1)
            await #expect(throws: DatabaseError.self) {
                try await database.reference(withPath: "users/grace").setValue(1)
            }
            user.record("grace")
            database.app?.tokenDidChange()
            try await database.reference(withPath: "users/grace").setValue(2)
            await #expect(throws: DatabaseError.self) { try await database.reference(withPath: "users/ada").getData() }
        }

        /// A signed-in user's unsent write waits, after a restart, until the user has signed in again.
        @Test func writesWaitForTheUser() async throws {
            let gateway = try #require(TestGateway.current)
            let directory = TemporaryFolder.path("client-users")
            defer { TemporaryFolder.remove(directory) }
            let path = "users/eve/\(UInt64.random(in: 0 ... .max))"
            let first = gateway.client(directory: directory, tokenProvider: { _ in Self.token("eve") })
            first.isPersistenceEnabled = true
            try await first.reference(withPath: path).child("a").setValue(1)
            first.goOffline()
            atOnce { first.reference(withPath: path).child("b").setValue(2) }
            let name = first.app?.name ?? ""
            await first.app?.delete()

            let user = Recorder<String>()
            let app = PathmirrorApp.configure(
                url: gateway.url, name: name, directory: URL(fileURLWithPath: directory),
                tokenProvider: { _ in user.events.last.map { Self.token($0) } })
            let again = Database.database(app: app)
            again.callbackQueue = DispatchQueue(label: "again")
            again.isPersistenceEnabled = true
            let values = again.reference(withPath: path).child("b").recordValues()
            // A refusal would have come before this answer of the server.
            _ = try await again.reference(withPath: "open/nothing").getData()
            #expect(values.events.allSatisfy { $0 == "2" })
            user.record("eve")
            app.tokenDidChange()
            let reader = gateway.client(tokenProvider: { _ in Self.token("eve") }).reference(withPath: path)
            let seen = reader.recordValues()
            try await until("it is sent") { seen.events.last == #"{"a":1,"b":2}"# }
            await app.delete()
        }

        /// If the user does not sign in again, waiting writes can be purged, and later writes do not wait.
        @Test func writesThatWaitForAUserCanBeGivenUp() async throws {
            let ground = try Ground()
            let directory = TemporaryFolder.path("client-released")
            defer { TemporaryFolder.remove(directory) }
            let first = ground.client(directory: directory, tokenProvider: { _ in Self.token("eve") })
            try await first.child("a").setValue(1)
            first.database.goOffline()
            atOnce { first.child("b").setValue(2) }
            let name = first.database.app?.name ?? ""
            await first.database.app?.delete()

            let app = PathmirrorApp.configure(
                url: ground.gateway.url, name: name, directory: URL(fileURLWithPath: directory),
                tokenProvider: { _ in nil })
            let again = Database.database(app: app)
            again.callbackQueue = DispatchQueue(label: "again")
            again.isPersistenceEnabled = true
            let ref = again.reference(withPath: ground.path)
            let answered = Recorder<Bool>()
            ref.child("c").setValue(3) { error, _ in answered.record(error == nil) }
            // If the write had been sent, it would have been answered before this answer of the server.
            _ = try await again.reference(withPath: "open/nothing").getData()
            #expect(answered.events.isEmpty)
            again.purgeOutstandingWrites()
            try await ref.child("d").setValue(4)
            #expect(answered.events == [false])
            #expect(try await ground.client().getData().json == #"{"a":1,"d":4}"#)
            again.goOffline()
            atOnce { ref.child("e").setValue(5) }
            await app.delete()

            // The write is not sent after another restart either.
            let last = PathmirrorApp.configure(
                url: ground.gateway.url, name: name, directory: URL(fileURLWithPath: directory),
                tokenProvider: { _ in nil })
            let third = Database.database(app: last)
            third.callbackQueue = DispatchQueue(label: "third")
            third.isPersistenceEnabled = true
            try await third.reference(withPath: ground.path).child("f").setValue(6)
            #expect(try await ground.client().getData().json == #"{"a":1,"d":4,"e":5,"f":6}"#)
            await last.delete()
        }

        /// Returns a token that a development gateway accepts.
        static func token(_ user: String, expires: Int64 = 4_000_000_000) -> String {
            func part(_ text: String) -> String {
                Data(text.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing(
                    "=", with: "")
            }
            let claims = #"{"sub":"\#(user)","user_id":"\#(user)","iat":1,"exp":\#(expires),"firebase":{}}"#
            return part(#"{"alg":"none","typ":"JWT"}"#) + "." + part(claims) + "."
        }
    }
}
