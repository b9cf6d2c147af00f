import Testing
import Tree

@testable import ClientCore

/// Checks that data loaded at different times is shown from the file as it was left, as in Firebase's SDKs: a path
/// without a listener is as old as its last listen, except for parts that other listens have updated since.
@Suite struct TimesOfLoadingTests {
    private let whole = QuerySpec(path: Path(splitting: "a"))
    private let half = QuerySpec(path: Path(splitting: "a/pair"), query: Query(index: .key, limit: .first(1)))

    private func registration(_ id: UInt64, _ spec: QuerySpec) -> Registration {
        Registration(id: RegistrationID(rawValue: id), spec: spec, kinds: .value)
    }

    private func pair(_ left: Int64, _ right: Int64) -> Node {
        Node(children: [(Key("pair"), Node(children: [(Key("l"), .int(left)), (Key("r"), .int(right))]))])
    }

    /// A listener sees half of an update only if the file has no more: a query that selects one of two values received
    /// them later than the listener to both. The server's answer contains both.
    @Test func aQueryWithLaterDataIsNewerThanTheRest() {
        let tree = SyncTree(cache: CacheManager(store: MemoryStore()))
        let first = registration(1, whole)
        _ = tree.add(first)
        _ = tree.applyServer(pair(5, 5), at: whole.path, tag: nil)
        _ = tree.completeListen(whole, tag: nil)
        _ = tree.remove(first)
        guard case .start(_, let tag?)? = tree.add(registration(2, half)).listens.first else {
            Issue.record("the query is not asked for")
            return
        }
        _ = tree.applyServer(Node(children: [(Key("l"), .int(6))]), at: half.path, tag: tag)
        _ = tree.completeListen(half, tag: tag)
        let shown = tree.add(registration(3, whole)).events.filter { $0.registration.rawValue == 3 }
        #expect(shown.map(\.node) == [pair(6, 5)])
        let reported = tree.applyServer(pair(6, 6), at: whole.path, tag: nil).events
        #expect(reported.filter { $0.registration.rawValue == 3 }.map(\.node) == [pair(6, 6)])
    }
}
