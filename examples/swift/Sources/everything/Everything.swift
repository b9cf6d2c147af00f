import Foundation
import PathmirrorClient

/// Uses what the library has at one place. It belongs to no actor: references and snapshots may go anywhere.
struct Everything: Sendable {
    private struct Unexpected: Error {
        let what: String
    }

    private let ref: DatabaseReference

    init(_ ref: DatabaseReference) { self.ref = ref }

    private func expect(_ isSo: Bool, _ what: String) throws { if !isSo { throw Unexpected(what: what) } }

    func write() async throws {
        try await ref.child("values").setValue(["text": "a", "number": 1.5, "list": [1, 2, 3], "yes": true])
        try await ref.child("values").updateChildValues(["text": "b", "list/0": 4])
        try await ref.child("values/text").setPriority(1)
        try await ref.child("values/yes").removeValue()
        try await ref.child("counter").setValue(ServerValue.increment(2))
        try await ref.child("with-priority").setValue("x", andPriority: "p")
        try ref.child("order").setValue(from: Order(item: "tea", count: 2, at: nil)) { error in
            if let error { print("the order was not saved: \(error)") }
        }
        // Tasks of their own write at once, and in order.
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...9 {
                group.addTask { [ref] in try await ref.child("numbers/n\(number)").setValue(number) }
            }
            try await group.waitForAll()
        }
    }

    func read() async throws {
        let values = try await ref.child("values").getData()
        try expect(values.childSnapshot(forPath: "text").value as? String == "b", "an update")
        try expect(values.childSnapshot(forPath: "text").priority as? Int == 1, "a priority")
        try expect(values.childSnapshot(forPath: "list").value as? [Int] == [4, 2, 3], "a list")
        try expect(!values.hasChild("yes") && values.childrenCount == 3, "what was removed")
        try expect(try await ref.child("order").getData().data(as: Order.self).item == "tea", "an order")
        try expect(try await ref.child("order").getData().data(as: Order.self).at != nil, "the server's time")
        let numbers = ref.child("numbers")
        let last = try await numbers.queryOrderedByValue().queryLimited(toLast: 2).getData()
        try expect(last.childSnapshots.map(\.key) == ["n8", "n9"], "the last two")
        let some = await numbers.queryOrderedByKey().queryStarting(atValue: "n3").queryEnding(beforeValue: "n5")
            .observeSingleEvent(of: .value)
        try expect(some.childrenCount == 2, "those from n3 to before n5")
    }

    func listen() async throws {
        let numbers = ref.child("numbers")
        numbers.keepSynced(true)
        var seen = 0
        for try await event in numbers.childEvents() {
            if case .added = event { seen += 1 }
            if seen == 9 { break }
        }
        for try await snapshot in numbers.snapshots where snapshot.childrenCount == 9 { break }
        numbers.keepSynced(false)
        try await onTheMainActor()
    }

    @MainActor private func onTheMainActor() async throws {
        var values: [String] = []
        let place = ref.child("place")
        let handle = place.observe(.value) { snapshot in values.append(snapshot.value as? String ?? "nothing") }
        let query = place.queryOrderedByKey()
        query.observe(
            .childAdded, with: { child in values.append(child.key) },
            withCancel: { error in print("refused: \(error)") })
        try await place.setValue("one")
        try await place.setValue(["two": 2])
        place.removeObserver(withHandle: handle)
        query.removeAllObservers()
        try await place.setValue("three")
        try expect(values.contains("one") && values.contains("two") && !values.contains("three"), "events: \(values)")
    }

    func transact() async throws {
        let counter = ref.child("counter")
        async let first = counter.runTransactionBlock(Self.addOne)
        async let second = counter.runTransactionBlock(Self.addOne)
        _ = try await (first, second)
        try expect(try await counter.getData().value as? Int == 4, "a counter")
        let (isCommitted, _) = try await counter.runTransactionBlock { _ in .abort() }
        try expect(!isCommitted, "what was given up")
    }

    @Sendable private static func addOne(_ data: MutableData) -> TransactionResult {
        data.value = (data.value as? Int ?? 0) + 1
        return .success(withValue: data)
    }

    func leave() async throws {
        try await ref.child("here").setValue(true)
        try await ref.child("here").onDisconnectRemoveValue()
        try await ref.child("left").onDisconnectSetValue(ServerValue.timestamp())
        try await ref.child("left").cancelDisconnectOperations()
    }

    func stayAway(_ database: Database) async throws {
        database.goOffline()
        let refused = Task { try await ref.child("never").setValue(1) }
        for try await snapshot in ref.child("never").snapshots where snapshot.value as? Int == 1 { break }
        database.purgeOutstandingWrites()
        do {
            _ = try await refused.value
            throw Unexpected(what: "a write that was taken back")
        } catch let error as DatabaseError {
            try expect(error.code == .writeCanceled, "\(error)")
        }
        database.goOnline()
        try await ref.child("again").setValue(1)
        try expect(!(try await ref.child("here").getData().exists()), "what was to be removed at the connection's end")
    }
}
