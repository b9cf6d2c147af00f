import Engine
import HTTPServer
import Runtime
import Testing
import Tree
import Wire

@testable import Gateway

/// Tests of listener groups: the notices of changes, the loops that receive them, and their encoding.
@Suite struct ListenerGroupTests {
    private let namespace = TestNamespace()
    private let groups = ListenerGroups()

    private func key(
        _ path: String, _ encoding: ListenerKey.Encoding = .realtime, query: Query? = nil
    ) -> ListenerKey {
        ListenerKey(namespace: NamespaceKey(id: 1), path: Path(splitting: path), query: query, encoding: encoding)
    }

    private func texts(_ news: [GroupMessage]) -> [[String]] {
        news.compactMap { news in
            guard case .events(let encoded) = news else { return nil }
            return encoded.events.map { String(decoding: $0.bytes.bytes, as: UTF8.self) }
        }
    }

    // MARK: Joining and leaving

    @Test func listenersOfOneKeyShareAGroup() {
        let (one, two) = (ScriptedOutlet(), ScriptedOutlet())
        let (first, _) = groups.join(key("a"), namespace.live, one)
        let (second, _) = groups.join(key("a"), namespace.live, two)
        let (third, _) = groups.join(key("a", .events(.plain, withIDs: true)), namespace.live, one)
        #expect(first === second && first !== third)
        #expect(groups.count == 2)
        #expect(namespace.live.listenerCount == 2)
    }

    @Test func theLastToLeaveEndsTheGroup() {
        let (one, two) = (ScriptedOutlet(), ScriptedOutlet())
        let (group, _) = groups.join(key("a"), namespace.live, one)
        _ = groups.join(key("a"), namespace.live, one)
        _ = groups.join(key("a"), namespace.live, two)
        groups.leave(group, one)
        groups.leave(group, two)
        #expect(groups.count == 1)
        namespace.commit((path: "a", value: .int(1)))
        #expect(one.take().count == 1, "one of its listeners is left")
        #expect(two.take().isEmpty)
        groups.leave(group, one)
        #expect(groups.count == 0)
        #expect(namespace.live.listenerCount == 0)
        namespace.commit((path: "a", value: .int(2)))
        #expect(one.take().isEmpty)
    }

    /// Checks that a listener receives a snapshot and then every later step.
    @Test func joiningReportsTheStart() {
        namespace.commit((path: "a", value: .int(1)))
        let outlet = ScriptedOutlet()
        let (_, snapshot) = groups.join(key("a"), namespace.live, outlet)
        #expect(snapshot.seq == 1)
        #expect(outlet.take().isEmpty)
        namespace.commit((path: "a", value: .int(2)), (path: "a", value: .int(3)))
        let news = outlet.take()
        #expect(news.count == 1, "the events of one batch come together")
        guard case .events(let encoded) = news.first else {
            Issue.record("no events")
            return
        }
        #expect(encoded.events.map(\.seq) == [2, 3])
        #expect(encoded.lastSeq == 3)
    }

    // MARK: Notices

    @Test func changesAreReported() {
        let outlet = ScriptedOutlet()
        _ = groups.join(key("a/b"), namespace.live, outlet)
        namespace.commit((path: "a/b", value: .int(1)))
        namespace.commit((path: "a/b/c", value: .string("x")))
        namespace.commit((path: "a", value: .null))
        namespace.commit((path: "a/other", value: .int(1)))
        namespace.commit((path: "x", value: .int(1)))
        let calls = texts(outlet.take())
        #expect(calls.count == 3, "what lies beside the path is not told")
        #expect(Array(calls.joined()).allSatisfy { $0.contains("a/b") })
    }

    @Test func streamsAreSentEventsWithIDs() throws {
        let outlet = ScriptedOutlet()
        let (group, _) = groups.join(key("a", .events(.plain, withIDs: true)), namespace.live, outlet)
        namespace.commit((path: "a/b", value: .int(1)))
        let text = try #require(texts(outlet.take()).first?.first)
        let id = group.ids(namespace.snapshot.rules).id(1, TestNamespace.batch(1))
        #expect(text == "event: put\nid: \(id)\ndata: {\"path\":\"/b\",\"data\":1}\n\n")
    }

    @Test func idsAreLeftOutForOthers() {
        let outlet = ScriptedOutlet()
        _ = groups.join(key("a", .events(.plain, withIDs: true)), namespace.live, ScriptedOutlet())
        _ = groups.join(key("a", .events(.plain, withIDs: false)), namespace.live, outlet)
        #expect(groups.count == 2)
        namespace.commit((path: "a/b", value: .int(1)))
        #expect(texts(outlet.take()) == [["event: put\ndata: {\"path\":\"/b\",\"data\":1}\n\n"]])
    }

    /// Checks that every loop with listeners of a group receives the same bytes.
    @Test func loopsShareTheBytes() throws {
        let outlets = [ScriptedOutlet(), ScriptedOutlet(), ScriptedOutlet()]
        let (group, _) = groups.join(key("a"), namespace.live, outlets[0])
        for outlet in outlets.dropFirst() { _ = groups.join(key("a"), namespace.live, outlet) }
        namespace.commit((path: "a", value: .int(1)))
        let bytes = outlets.compactMap { outlet -> SharedBytes? in
            guard case .events(let encoded) = outlet.take().first else { return nil }
            return encoded.events.first?.bytes
        }
        #expect(bytes.count == 3)
        #expect(Set(bytes.map { $0.bytes.withUnsafeBufferPointer { $0.baseAddress } }).count == 1, "encoded once")
        withExtendedLifetime(group) {}
    }

    @Test func resetsRulesAndEndsAreReported() throws {
        let outlet = ScriptedOutlet()
        _ = groups.join(key("a"), namespace.live, outlet)
        namespace.reset(to: .int(1), seq: 7)
        var kinds = outlet.take().map(Self.kind)
        #expect(kinds == ["reset 7", "rules"])
        try namespace.adopt("{\"rules\":{\".read\":true}}")
        kinds = outlet.take().map(Self.kind)
        #expect(kinds == ["rules"])
        namespace.end()
        kinds = outlet.take().map(Self.kind)
        #expect(kinds == ["ended"])
    }

    private static func kind(_ news: GroupMessage) -> String {
        switch news {
        case .events(let encoded): "events \(encoded.events.map(\.seq))"
        case .reset(let snapshot): "reset \(snapshot.seq)"
        case .newRules: "rules"
        case .ended: "ended"
        }
    }

    // MARK: Queries

    private var lastTwo: Query {
        get throws { try #require(try RESTParameters("orderBy=\"$key\"&limitToLast=2".utf8Slice).query) }
    }

    /// Checks that a window is followed as it changes: its listeners receive the children that leave and enter the
    /// window.
    @Test func windowsAreFollowed() throws {
        for key in ["k1", "k2", "k3"] { namespace.commit((path: "a/\(key)", value: .int(1))) }
        let outlet = ScriptedOutlet()
        let (group, snapshot) = groups.join(key("a", query: try lastTwo), namespace.live, outlet)
        #expect(group.value(in: snapshot) == (try JSONParser.parse("{\"k2\":1,\"k3\":1}")))
        namespace.commit((path: "a/k4", value: .int(1)))
        let calls = Array(texts(outlet.take()).joined())
        #expect(calls.count == 1)
        #expect(calls.first?.contains("k4") == true && calls.first?.contains("k2") == true)
        // Changes outside the window are not reported.
        namespace.commit((path: "a/k1", value: .int(9)))
        #expect(outlet.take().isEmpty)
        #expect(group.value(in: namespace.snapshot) == (try JSONParser.parse("{\"k3\":1,\"k4\":1}")))
    }

    /// Checks that the window is computed again after a reset, and not derived from the previous one.
    @Test func resetsForgetTheWindow() throws {
        namespace.commit((path: "a/k1", value: .int(1)))
        let outlet = ScriptedOutlet()
        _ = groups.join(key("a", query: try lastTwo), namespace.live, outlet)
        namespace.commit((path: "a/k2", value: .int(1)))
        namespace.reset(to: try JSONParser.parse("{\"a\":{\"k9\":9}}"), seq: 50)
        _ = outlet.take()
        namespace.commit((path: "a/k8", value: .int(8)))
        let calls = try #require(texts(outlet.take()).first?.first)
        #expect(calls.contains("k8") && !calls.contains("k1") && !calls.contains("k2"), "\(calls)")
    }

    // MARK: First values

    @Test func initialEventsHoldTheValue() throws {
        namespace.commit((path: "a", value: try JSONParser.parse("{\"b\":[1,2],\"c\":\"x\"}")))
        let (group, snapshot) = groups.join(key("a", .events(.plain, withIDs: true)), namespace.live, ScriptedOutlet())
        let text = String(decoding: group.initialEvent(snapshot).bytes, as: UTF8.self)
        #expect(text.hasPrefix("event: put\nid: 1-"))
        #expect(text.hasSuffix("\ndata: {\"path\":\"/\",\"data\":{\"b\":[1,2],\"c\":\"x\"}}\n\n"))
    }

    @Test func idsAreKeptUntilTheRulesChange() throws {
        let (group, _) = groups.join(key("a", .events(.plain, withIDs: true)), namespace.live, ScriptedOutlet())
        let old = namespace.snapshot.rules
        let id = group.ids(old).id(3, TestNamespace.batch(3))
        #expect(group.ids(old).seen(id)?.seq == 3)
        try namespace.adopt("{\"rules\":{\".read\":true}}")
        #expect(group.ids(namespace.snapshot.rules).seen(id) == nil, "what was read under other rules counts no more")
        #expect(group.ids(old).seen(id)?.seq == 3)
    }
}

extension String {
    fileprivate var utf8Slice: ArraySlice<UInt8> { Array(utf8)[...] }
}
