import Foundation
import TestSupport
import Testing

@testable import PathmirrorClient

extension EndToEnd {
    /// What queries answer from what others have loaded.
    @Suite struct OfflineQueries {
        /// The last four by value were loaded: the last two are known without a connection; of the last six, those four are
        /// told at once as children, and the rest and the value when there is a connection again.
        @Test(arguments: [true]) func narrowerAndWider(isPersistent: Bool) async throws {
            let ground = try Ground()
            let directory = isPersistent ? TemporaryFolder.path("client-queries") : nil
            defer { directory.map(TemporaryFolder.remove) }
            let scores = ground.client(directory: directory).child("indexed")
            let numbers = Dictionary(uniqueKeysWithValues: (1...8).map { ("k\($0)", $0) })
            try await ground.client().child("indexed").setValue(numbers)
            let four = scores.queryOrderedByValue().queryLimited(toLast: 4).recordChildren()
            try await until("four are loaded") { four.events.count == 4 }
            // Behind the value event, which the server's last answer brings.
            _ = await scores.queryOrderedByValue().queryLimited(toLast: 4).observeSingleEvent(of: .value)
            scores.database.goOffline()
            let two = scores.queryOrderedByValue().queryLimited(toLast: 2)
            let narrow = two.recordValues()
            try await until("two are told") { narrow.events == [#"{"k7":7,"k8":8}"#] }
            #expect(try await two.getData().json == #"{"k7":7,"k8":8}"#)
            let wide = scores.queryOrderedByValue().queryLimited(toLast: 6)
            let (six, value) = (wide.recordChildren(), wide.recordValues())
            try await until("four are told") { six.events.count == 4 }
            #expect(six.events == ["+k5", "+k6 after k5", "+k7 after k6", "+k8 after k7"])
            #expect(value.events.isEmpty)
            scores.database.goOnline()
            try await until("the rest comes") { value.events == [#"{"k3":3,"k4":4,"k5":5,"k6":6,"k7":7,"k8":8}"#] }
            #expect(Set(six.events.dropFirst(4).map { $0.prefix(3) }) == ["+k3", "+k4"])
        }

        /// Kept in sync while nobody listens.
        @Test func keptSynced() async throws {
            let ground = try Ground()
            let (ref, other) = (ground.client(), ground.client())
            ref.keepSynced(true)
            try await other.setValue(["a": 1])
            try await other.child("b").setValue(2)
            let marker = ref.database.reference(withPath: ground.path + "/b")
            for try await snapshot in marker.snapshots where snapshot.value as? Int == 2 { break }
            ref.database.goOffline()
            #expect(try await ref.getData().json == #"{"a":1,"b":2}"#)
        }
    }
}
