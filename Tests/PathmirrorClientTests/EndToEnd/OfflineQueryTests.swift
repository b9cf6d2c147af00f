import Foundation
import TestSupport
import Testing

@testable import PathmirrorClient

extension EndToEnd {
    /// Checks the answers of queries from data that other queries have loaded.
    @Suite struct OfflineQueries {
        /// The last four children by value were loaded: the last two are known without a connection. Of the last six,
        /// those four are delivered at once as children, and the rest and the value after reconnecting.
        @Test(arguments: [true]) func narrowerAndWider(isPersistent: Bool) async throws {
            let ground = try Ground()
            let directory = isPersistent ? TemporaryFolder.path("client-queries") : nil
            defer { directory.map(TemporaryFolder.remove) }
            let scores = ground.client(directory: directory).child("indexed")
            let numbers = Dictionary(uniqueKeysWithValues: (1...8).map { ("k\($0)", $0) })
            try await ground.client().child("indexed").setValue(numbers)
            let four = scores.queryOrderedByValue().queryLimited(toLast: 4).recordChildren()
            try await until("four are loaded") { four.events.count == 4 }
            // The value event of this query comes last, with the server's last answer.
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

        /// An item's data that a list has loaded serves a listener at the item, and a transaction starts from it: the
        /// list never loses the item.
        @Test func anItemOfAListOpens() async throws {
            let ground = try Ground()
            let parent = ground.client().child("indexed")
            try await ground.client().child("indexed").setValue(["a": ["n": 1, "t": 5], "b": ["n": 2, "t": 6]])
            let list = parent.queryOrdered(byChild: "n").queryLimited(toLast: 1).recordValues()
            try await until("the list is there") { list.events == [#"{"b":{"n":2,"t":6}}"#] }
            parent.database.goOffline()
            #expect(try await parent.child("b").getData().json == #"{"n":2,"t":6}"#)
            await #expect(throws: DatabaseError.self) { try await parent.child("a").getData() }
            let item = parent.child("b/t").recordValues()
            try await until("the item is told") { item.events == ["6"] }
            atOnce {
                parent.child("b").runTransactionBlock { data in
                    let number = data.childData(byAppendingPath: "n")
                    number.value = (number.value as? Int ?? 100) + 1
                    return .success(withValue: data)
                }
            }
            try await until("the list follows") { list.events.count == 2 }
            #expect(list.events.last == #"{"b":{"n":3,"t":6}}"#)
        }

        /// Data that is known in part has been removed when the client reconnects: the server then sends no data for
        /// it.
        @Test(arguments: [false, true]) func whatIsKnownInPartMayBeGone(isQuery: Bool) async throws {
            let ground = try Ground()
            let (ref, other) = (ground.client(), ground.client())
            try await other.setValue(["a": 1, "b": 2])
            // The path has a child that another listener has loaded, and it is unknown whether there are more.
            let part = ref.child("a").recordValues()
            try await until("a part is loaded") { part.events == ["1"] }
            ref.database.goOffline()
            let query: DatabaseQuery = isQuery ? ref.queryOrderedByKey().queryLimited(toFirst: 3) : ref
            let (children, values) = (query.recordChildren(), query.recordValues())
            try await until("it is told") { children.events == ["+a"] }
            try await other.removeValue()
            ref.database.goOnline()
            try await until("it goes") { values.events == ["null"] && part.events == ["1", "null"] }
            #expect(children.events == ["+a", "-a"])
        }

        /// A path is kept in sync without a listener.
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
