import Foundation
import Testing

@testable import PathmirrorClient

extension EndToEnd {
    @Suite struct Reading {
        @Test func windowsMove() async throws {
            let ground = try Ground()
            let (writer, reader) = (ground.client().child("indexed"), ground.client().child("indexed"))
            for (key, number) in [("a", 1), ("b", 2), ("c", 3)] { try await writer.child(key).setValue(["n": number]) }
            let seen = reader.queryOrdered(byChild: "n").queryLimited(toLast: 2).recordChildren()
            try await until("the window is there") { seen.events == ["+b", "+c after b"] }
            try await writer.child("d").setValue(["n": 4])
            try await until("it moved") { seen.events.suffix(2) == ["-b", "+d after c"] }
            try await writer.child("d").removeValue()
            try await until("it moved back") { seen.events.suffix(2) == ["-d", "+b"] }
            try await writer.child("b/n").setValue(9)
            try await until("the order changed") { seen.events.suffix(2) == ["~b after c", "=b after c"] }
        }

        @Test func boundsSelect() async throws {
            let ground = try Ground()
            let ref = ground.client()
            try await ref.child("indexed").setValue(["a": 1, "b": 2, "c": 3, "d": "x", "e": true])
            let values = ref.child("indexed").queryOrderedByValue()
            let keys = { (query: DatabaseQuery) in try await query.getData().childSnapshots.map(\.key) }
            #expect(try await keys(values) == ["e", "a", "b", "c", "d"])
            #expect(try await keys(values.queryStarting(atValue: 2)) == ["b", "c", "d"])
            #expect(try await keys(values.queryStarting(afterValue: 2)) == ["c", "d"])
            #expect(try await keys(values.queryEnding(beforeValue: 2)) == ["e", "a"])
            #expect(try await keys(values.queryEqual(toValue: true)) == ["e"])
            #expect(try await keys(values.queryLimited(toFirst: 2)) == ["e", "a"])
            let byKey = ref.child("indexed").queryOrderedByKey()
            #expect(try await keys(byKey.queryStarting(atValue: "b").queryEnding(atValue: "c")) == ["b", "c"])
            #expect(try await keys(byKey.queryStarting(afterValue: "b").queryLimited(toFirst: 1)) == ["c"])
            let single = await byKey.queryLimited(toLast: 1).observeSingleEvent(of: .value)
            #expect(single.json == #"{"e":true}"#)
        }

        @Test func sequences() async throws {
            let ground = try Ground()
            let ref = ground.client()
            try await ref.setValue(["a": 1])
            var seen: [String] = []
            for try await event in ref.childEvents() {
                switch event {
                case .added(let snapshot, let previous): seen.append("+\(snapshot.key) \(previous ?? "-")")
                case .changed(let snapshot, _): seen.append("=\(snapshot.key)")
                case .moved(let snapshot, _): seen.append("~\(snapshot.key)")
                case .removed(let snapshot): seen.append("-\(snapshot.key)")
                }
                switch seen.count {
                case 1: try await ref.child("b").setValue(2)
                case 2: try await ref.child("b").setValue(3)
                case 3: try await ref.child("a").removeValue()
                default: break
                }
                if seen.count == 4 { break }
            }
            #expect(seen == ["+a -", "+b a", "=b", "-a"])
            for try await snapshot in ref.snapshots where snapshot.hasChild("b") { break }
        }

        @Test func removedListenersAreSilent() async throws {
            let ground = try Ground()
            let ref = ground.client()
            let (all, one) = (Recorder<String>(), Recorder<String>())
            ref.observe(.value) { all.record($0.json) }
            let handle = ref.observe(.value) { one.record($0.json) }
            try await until("both are served") { all.events == ["null"] && one.events == ["null"] }
            ref.child("x").removeObserver(withHandle: handle)
            try await ref.setValue(1)
            ref.removeObserver(withHandle: handle)
            try await ref.setValue(2)
            #expect(all.events == ["null", "1", "2"])
            #expect(one.events == ["null", "1"])
            ref.removeAllObservers()
            try await ref.setValue(3)
            #expect(all.events == ["null", "1", "2"])
        }

        @Test func information() async throws {
            let ground = try Ground()
            let database = ground.client().database
            let connected = Recorder<Bool>()
            database.reference(withPath: ".info/connected").observe(.value) {
                connected.record($0.value as? Bool ?? false)
            }
            try await until("it is connected") { connected.events.last == true }
            let offset = try await database.reference(withPath: ".info/serverTimeOffset").getData()
            #expect(try abs(#require(offset.value as? Int)) < 60_000)
            database.goOffline()
            try await until("it is not") { connected.events.last == false }
            database.goOnline()
            try await until("it is again") { connected.events.last == true }
        }
    }
}
