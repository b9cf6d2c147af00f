import Testing
import Tree

@testable import Feeds

/// Tests of the events that functions receive.
@Suite struct FirebaseEventTests {
    private static func node(_ text: String) throws -> Node { try JSONParser.parse(Array(text.utf8)).node }

    private static func body(_ before: Node, _ after: Node) -> String {
        String(decoding: FirebaseEvent.body(RecordValues(before: before, after: after)), as: UTF8.self)
    }

    private static func headers(_ message: SinkMessage) -> [String: String] {
        Dictionary(uniqueKeysWithValues: FirebaseEvent.headers(message, .updated).map { ($0.name, $0.value) })
    }

    private static func message(
        _ path: String = "/rooms/r1", _ author: EntryAuthor = .unknown
    ) -> SinkMessage {
        SinkMessage(
            id: "shop:42:0", namespace: "shop", feed: "rooms", key: "r1", path: path, event: "updated", seq: 42,
            time: "2026-11-22T10:00:00.123Z", attempt: 1, json: [], author: author)
    }

    @Test func attributes() {
        let expected = [
            "ce-specversion": "1.0", "ce-id": "shop:42:0", "ce-type": "google.firebase.database.ref.v1.updated",
            "ce-source": "//firebasedatabase.googleapis.com/projects/_/locations/us-central1/instances/shop",
            "ce-subject": "refs/rooms/r1", "ce-time": "2026-11-22T10:00:00.123Z", "ce-instance": "shop",
            "ce-ref": "rooms/r1", "ce-location": "us-central1", "ce-firebasedatabasehost": "firebaseio.com",
            "ce-authtype": "app_user", "ce-authid": "ada",
        ]
        #expect(Self.headers(Self.message("/rooms/r1", EntryAuthor(.user, uid: "ada"))) == expected)
    }

    @Test(arguments: [
        (EntryAuthor(.user, uid: "a b%\"é\r\n"), "app_user", "a%20b%25%22%C3%A9%0D%0A"),
        (EntryAuthor(.admin, uid: "root"), "admin", nil), (EntryAuthor(.nobody), "unauthenticated", nil),
        (.unknown, "unknown", nil),
    ])
    func authors(_ author: EntryAuthor, _ type: String, _ id: String?) {
        let headers = Self.headers(Self.message("/", author))
        #expect(headers["ce-authtype"] == type)
        #expect(headers["ce-authid"] == id)
    }

    @Test(arguments: [
        ("/", ""), ("/a/é b", "a/%C3%A9%20b"), ("/a/x\"%y", "a/x%22%25y"), ("/a/~!*'()", "a/~!*'()"),
    ])
    func pathsAreEncoded(_ path: String, _ ref: String) {
        let headers = Self.headers(Self.message(path))
        #expect(headers["ce-ref"] == ref)
        #expect(headers["ce-subject"] == "refs/" + ref)
    }

    @Test(arguments: [
        ("null", "1", "1"), ("1", "null", "null"), (#"{"a":1}"#, #""x""#, #""x""#),
        ("7", #"{"a":[1,2]}"#, #"{"a":{"0":1,"1":2}}"#),
        (#"{"a":1,"b":2}"#, #"{"b":2,"c":3}"#, #"{"a":null,"c":3}"#), (#"{"a":1}"#, #"{"a":1}"#, "{}"),
        (#"{"a":{"b":1,"c":2},"d":1}"#, #"{"a":{"c":3},"d":1}"#, #"{"a":{"b":null,"c":3}}"#),
        (#"["x","y","z"]"#, #"["x","w"]"#, #"{"2":null,"1":"w"}"#), (#"{"a":[1,2]}"#, #"{"a":2}"#, #"{"a":2}"#),
    ])
    func differences(_ before: String, _ after: String, _ delta: String) throws {
        let (old, new) = (try Self.node(before), try Self.node(after))
        let body = Self.body(old, new)
        #expect(
            body.hasPrefix(
                #"{"@type":"type.googleapis.com/google.events.firebase.database.v1.ReferenceEventData","data":"#))
        #expect(body.hasSuffix(#","delta":\#(delta)}"#))
        let members = try #require(RawJSON(Array(body.utf8)).members)
        #expect(try JSONParser.parse(members[1].value.text).node == old)
        #expect(merged(members[1].value, members[2].value) == new)
    }

    /// Merges as firebase-functions does: objects key by key, null removes a key, and anything else replaces.
    private func merged(_ data: RawJSON?, _ delta: RawJSON) -> Node? {
        guard let old = data?.members, let changes = delta.members else {
            return try? JSONParser.parse(delta.text).node
        }
        var children = Dictionary(uniqueKeysWithValues: old.map { ($0.key, try? JSONParser.parse($0.value.text).node) })
        for (key, value) in changes {
            children[key] = merged(old.first { $0.key == key }?.value, value) ?? .null
        }
        return Node(children: children.map { (Key($0.key), $0.value ?? .null) })
    }

    /// Priorities are no part of an event.
    @Test func prioritiesAreLeftOut() throws {
        let before = Node(children: [(Key("a"), .int(1))], priority: .int(5))
        let after = Node(children: [(Key("a"), .int(1)), (Key("b"), .bool(true))], priority: .int(6))
        #expect(Self.body(before, after).hasSuffix(#""data":{"a":1},"delta":{"b":true}}"#))
    }
}
