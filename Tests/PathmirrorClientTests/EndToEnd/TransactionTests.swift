import Foundation
import Testing

@testable import PathmirrorClient

extension EndToEnd {
    @Suite struct Transactions {
        private static let add: @Sendable (MutableData) -> TransactionResult = { data in
            data.value = (data.value as? Int ?? 0) + 1
            return .success(withValue: data)
        }

        @Test func twoClientsCount() async throws {
            let ground = try Ground()
            let (first, second) = (ground.client(), ground.client())
            try await withThrowingTaskGroup(of: Void.self) { group in
                for ref in [first, second] {
                    for _ in 0..<20 {
                        group.addTask {
                            let (isCommitted, _) = try await ref.runTransactionBlock(Self.add)
                            #expect(isCommitted)
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await first.getData().value as? Int == 40)
        }

        /// A star is toggled as in the blog example of Firebase's documentation.
        @Test func stars() async throws {
            let ground = try Ground()
            let ref = ground.client().child("post")
            try await ref.setValue(["title": "Hi", "starCount": 0] as [String: Any])
            let toggle: @Sendable (MutableData) -> TransactionResult = { data in
                guard var post = data.value as? [String: Any] else { return .success(withValue: data) }
                var stars = post["stars"] as? [String: Bool] ?? [:]
                var count = post["starCount"] as? Int ?? 0
                if stars["ada"] == nil {
                    count += 1
                    stars["ada"] = true
                } else {
                    count -= 1
                    stars["ada"] = nil
                }
                post["starCount"] = count
                post["stars"] = stars
                data.value = post
                return .success(withValue: data)
            }
            let (isCommitted, snapshot) = try await ref.runTransactionBlock(toggle)
            #expect(isCommitted)
            #expect(snapshot.json == #"{"starCount":1,"stars":{"ada":true},"title":"Hi"}"#)
            _ = try await ref.runTransactionBlock(toggle)
            #expect(try await ref.getData().json == #"{"starCount":0,"title":"Hi"}"#)
        }

        @Test func endsThatChangeNothing() async throws {
            let ground = try Ground()
            let ref = ground.client()
            try await ref.setValue(7)
            let (isCommitted, snapshot) = try await ref.runTransactionBlock { _ in .abort() }
            #expect(!isCommitted)
            #expect(snapshot.value is NSNull || snapshot.value as? Int == 7)
            await #expect(throws: DatabaseError.self) {
                try await ref.runTransactionBlock { data in
                    data.value = ["a.b": 1]
                    return .success(withValue: data)
                }
            }
            let refused = ground.gateway.client().reference(withPath: "readonly/t")
            await #expect {
                try await refused.runTransactionBlock(Self.add)
            } throws: { ($0 as? DatabaseError)?.code == .permissionDenied }
        }

        @Test func localEvents() async throws {
            let ground = try Ground()
            let ref = ground.client()
            let values = ref.recordValues()
            try await until("it is served") { values.events == ["null"] }
            let reported = Recorder<String>()
            ref.runTransactionBlock(
                Self.add, andCompletionBlock: { _, _, snapshot in reported.record(snapshot?.json ?? "nil") },
                withLocalEvents: false)
            try await until("it is done") { reported.events == ["1"] }
            try await until("it is seen") { values.events == ["null", "1"] }
            try await ref.runTransactionBlock(Self.add)
            #expect(values.events == ["null", "1", "2"])
        }

        /// A plain write wins over an unanswered transaction, which gets one outcome.
        @Test func plainWritesOvertake() async throws {
            let ground = try Ground()
            let ref = ground.client()
            ref.database.goOffline()
            let reported = Recorder<Int>()
            ref.runTransactionBlock(Self.add) { error, isCommitted, _ in
                reported.record(isCommitted ? 0 : (error as? DatabaseError)?.code.rawValue ?? -1)
            }
            atOnce { ref.setValue(5) }
            ref.database.goOnline()
            try await until("it has ended") { !reported.events.isEmpty }
            #expect(try await ref.getData().value as? Int == 5)
            #expect(reported.events == [0] || reported.events == [6])
        }

        /// A transaction block may write; its writes come after the transaction.
        @Test func blocksMayWrite() async throws {
            let ground = try Ground()
            let directory = "/tmp/pathmirror-block-\(ProcessInfo.processInfo.processIdentifier)"
            defer { try? FileManager.default.removeItem(atPath: directory) }
            let ref = ground.client(directory: directory)
            _ = try await ref.child("n").runTransactionBlock { data in
                ref.child("log").setValue("ran")
                data.value = 1
                return .success(withValue: data)
            }
            let other = ground.client().recordValues()
            try await until("both are there") { other.events.last == #"{"log":"ran","n":1}"# }
            await ref.database.app?.delete()
        }
    }
}
