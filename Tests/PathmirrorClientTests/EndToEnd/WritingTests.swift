import Foundation
import Testing

@testable import PathmirrorClient

extension EndToEnd {
    @Suite struct Writing {
        @Test func twoClientsSeeEachOther() async throws {
            let ground = try Ground()
            let (first, second) = (ground.client(), ground.client())
            let seen = second.recordValues()
            try await first.setValue(["name": "Ada", "likes": ["u1": true]])
            try await until("the other sees it") { seen.events.last == #"{"likes":{"u1":true},"name":"Ada"}"# }
            try await second.child("name").setValue("Grace")
            let read = try await first.getData()
            #expect(read.childSnapshot(forPath: "name").value as? String == "Grace")
            #expect((read.value as? NSDictionary)?["likes"] as? [String: Bool] == ["u1": true])
        }

        /// A client's own events come before any answer, and the server's data does not raise them again.
        @Test func localEventsComeOnce() async throws {
            let ground = try Ground()
            let ref = ground.client()
            let seen = ref.recordChildren()
            let values = ref.recordValues()
            try await until("the listener is served") { values.events == ["null"] }
            atOnce {
                ref.child("b").setValue(1)
                ref.child("a").setValue(1)
            }
            try await ref.child("b").setValue(2)
            _ = try await ref.getData()
            #expect(seen.events == ["+b", "+a", "=b after a"])
            #expect(values.events == ["null", #"{"b":1}"#, #"{"a":1,"b":1}"#, #"{"a":1,"b":2}"#])
        }

        @Test func updatesAreSeenWhole() async throws {
            let ground = try Ground()
            let (writer, reader) = (ground.client(), ground.client())
            try await writer.updateChildValues(["a/n": 0, "b/n": 0])
            let values = reader.recordValues()
            for number in 1...20 { try await writer.updateChildValues(["a/n": number, "b/n": number]) }
            try await until("the last is there") { values.events.last == #"{"a":{"n":20},"b":{"n":20}}"# }
            #expect(values.events.allSatisfy { $0 == "null" || $0.matches(of: #/"n":(\d+)/#).map(\.1).allTheSame })
        }

        @Test func serverValues() async throws {
            let ground = try Ground()
            let (ref, other) = (ground.client(), ground.client())
            try await ref.setValue(["at": ServerValue.timestamp(), "n": 5])
            let times = other.child("at").recordValues()
            try await until("the time is there") { times.events.last.flatMap { Int64($0) } ?? 0 > 1_600_000_000_000 }
            let numbers = ref.child("n").recordValues()
            try await until("the number is there") { numbers.events == ["5"] }
            for _ in 0..<5 { try await ref.child("n").setValue(ServerValue.increment(2)) }
            #expect(try await other.child("n").getData().value as? Int == 15)
            #expect(numbers.events == ["5", "7", "9", "11", "13", "15"])
        }

        @Test func priorities() async throws {
            let ground = try Ground()
            let ref = ground.client()
            try await ref.child("a").setValue("x", andPriority: 2)
            try await ref.child("b").setValue("y", andPriority: 1)
            let seen = ref.recordChildren()
            try await until("both came") { seen.events.count == 2 }
            #expect(seen.events == ["+b", "+a after b"])
            try await ref.child("b").setPriority(3)
            #expect(seen.events.suffix(2) == ["~b after a", "=b after a"])
            let snapshot = try await ref.child("b").getData()
            #expect(snapshot.priority as? Int == 3)
            #expect((snapshot.valueInExportFormat() as? NSDictionary)?[".value"] as? String == "y")
        }

        /// Values larger than a protocol frame are sent and received.
        @Test func largeValues() async throws {
            let ground = try Ground()
            let (writer, reader) = (ground.client(), ground.client())
            let text = String(repeating: "größer 😀 ", count: 20_000)
            let many = Dictionary(uniqueKeysWithValues: (0..<3_000).map { ("k\($0)", $0) })
            try await writer.setValue(["text": text, "many": many] as [String: Any])
            let snapshot = try await reader.getData()
            #expect(snapshot.childSnapshot(forPath: "text").value as? String == text)
            #expect(snapshot.childSnapshot(forPath: "many").value as? [String: Int] == many)
        }

        @Test func codableTypes() async throws {
            struct Post: Codable, Equatable {
                var title: String
                var stars: [String: Bool]
                @ServerTimestamp var created: Date?
            }
            let ground = try Ground()
            let ref = ground.client().childByAutoId()
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                do {
                    try ref.setValue(from: Post(title: "Hi", stars: ["ada": true])) { error in
                        if let error { continuation.resume(throwing: error) } else { continuation.resume() }
                    }
                } catch { continuation.resume(throwing: error) }
            }
            let post = try await ref.getData().data(as: Post.self)
            #expect(post.title == "Hi" && post.stars == ["ada": true])
            #expect(post.created.map { abs($0.timeIntervalSinceNow) < 3_600 } == true)
            let written = try await ref.setValue(from: Post(title: "Ho", stars: [:]))
            #expect(written == ref)
            #expect(try await ref.child("title").getData().value as? String == "Ho")
        }
    }
}

extension Sequence where Element: Equatable {
    fileprivate var allTheSame: Bool {
        var iterator = makeIterator()
        guard let first = iterator.next() else { return true }
        return allSatisfy { $0 == first }
    }
}
