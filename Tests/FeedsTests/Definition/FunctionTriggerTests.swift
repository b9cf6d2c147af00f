import Testing
import Tree

@testable import Feeds

/// Tests of the functions that the Functions emulator registers.
@Suite struct FunctionTriggerTests {
    private static func body(
        name: String = "projects/demo/locations/us-central1/triggers/us-central1-greet-0",
        path: String = "rooms/{room}",
        event: String = "google.firebase.database.ref.v1.written", namespaces: String = "*"
    ) -> [UInt8] {
        Array(
            #"{"name":"\#(name)","path":"\#(path)","event":"\#(event)","topic":"projects/demo/topics/x","namespacePattern":"\#(namespaces)"}"#
                .utf8)
    }

    @Test func aFunctionHasAFeed() throws {
        let trigger = try FunctionTrigger(Self.body())
        #expect(trigger.feed == "function-us-central1-greet")
        let definition = trigger.definition(emulator: "127.0.0.1:5001", secret: secret, isNew: false)
        let text = String(decoding: definition.json(as: .stored), as: UTF8.self)
        #expect(try FeedDefinition.read(stored: Array(text.utf8), name: trigger.feed) == definition)
        #expect(definition.pattern == (try PathPattern("/rooms/{room}")))
        #expect(definition.functionEvent == .written)
        #expect(definition.start == .now)
        #expect(text.contains("http://127.0.0.1:5001/functions/projects/demo/triggers/us-central1-greet-0"))
        #expect(trigger.definition(emulator: "[::1]:5001", secret: secret, isNew: true).start == .beginning)
    }

    private let secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"

    /// The emulator changes the number at the end of the key with each reload of the source.
    @Test(arguments: [
        ("us-central1-greet-17", "function-us-central1-greet"), ("greet", "function-greet"),
        ("a-b-c", "function-a-b-c"),
        ("fn2", "function-fn2"), (String(repeating: "k", count: 54), "function-" + String(repeating: "k", count: 54)),
    ])
    func aReloadKeepsTheFeed(_ key: String, _ feed: String) throws {
        #expect(try FunctionTrigger(Self.body(name: "projects/demo/locations/r/triggers/\(key)")).feed == feed)
    }

    @Test func longNamesAreShortened() throws {
        let key = String(repeating: "k", count: 60)
        let feeds = try ["\(key)-0", "\(key)-1", "\(key)x-0", "a.b"].map {
            try FunctionTrigger(Self.body(name: "projects/demo/locations/r/triggers/\($0)")).feed
        }
        #expect(feeds[0] == feeds[1] && Set(feeds).count == 3)
        #expect(feeds.allSatisfy(FeedDefinitionReader.isName))
    }

    @Test(arguments: [
        ("/a/{b}/c", "/a/{b}/c"), ("a/*/{c=*}/d", "/a/{any2}/{c}/d"), ("a//b/", "/a/b"), ("*", "/{any1}"),
    ])
    func paths(_ path: String, _ pattern: String) throws {
        let read = try FunctionTrigger(Self.body(path: path)).pattern
        #expect(read == (try PathPattern(pattern)))
    }

    @Test(
        arguments: [
            ("*", ["a", "demo-rtdb", ""], []), ("{instance}", ["a"], []), ("demo", ["demo"], ["demo2", "", "dem"]),
            ("demo-*", ["demo-", "demo-a"], ["demo", "a-demo-"]),
            ("*-rtdb", ["-rtdb", "a-rtdb"], ["rtdb", "a-rtdb2"]),
            ("a*a", ["aa", "aba"], ["a", "ab"]), ("a*b*c", ["abc", "axbxc"], ["ac", "acb", "abcd"]),
        ] as [(String, [String], [String])])
    func namespaces(_ pattern: String, _ concerned: [String], _ others: [String]) throws {
        let trigger = try FunctionTrigger(Self.body(namespaces: pattern))
        #expect(concerned.filter { !trigger.concerns($0) } == [])
        #expect(others.filter(trigger.concerns) == [])
        #expect(trigger.namespace == (pattern == "demo" ? "demo" : nil))
    }

    @Test(arguments: [
        ("", "is not valid JSON"), ("[]", "must be an object, but is an array"), ("{}", "needs the string \"event\""),
        (#"{"event":7}"#, "needs the string \"event\""),
        (
            #"{"event":"providers/google.firebase.database/eventTypes/ref.write"}"#,
            "register functions of the 2nd generation"
        ),
        (#"{"event":"google.firebase.database.ref.v1.written"}"#, "needs the string \"name\""),
    ])
    func mistakes(_ text: String, _ reason: String) {
        #expect {
            _ = try FunctionTrigger(Array(text.utf8))
        } throws: {
            "\($0)".contains(reason)
        }
    }

    @Test func mistakesOfMembers() {
        let bodies: [([UInt8], String)] = [
            (Self.body(name: "projects/demo/triggers/x"), "the name must be"),
            (Self.body(name: "projects/demo/locations/r/triggers/a b"), "the name must be"),
            (Self.body(name: "projects/../locations/r/triggers/x"), "the name must be"),
            (Self.body(path: "a/**"), "use a wildcard for one whole part"),
            (Self.body(path: "a/{b=x-*}"), "use a wildcard for one whole part"),
            (Self.body(path: "a/{b}/{b}"), "the path is not valid"),
            (Self.body(path: "a/{b$=*}"), "{b$} must be letters, digits and _"),
            (Self.body(path: String(repeating: "*/", count: 33)), "the path has more than 32 parts"),
            (Self.body(path: "a/$"), "the path is not valid"),
            (Self.body(namespaces: ""), "has 1 to 200 bytes"),
            (Self.body(path: String(repeating: "a", count: FunctionTrigger.maxBytes)), "at most 65536 bytes"),
        ]
        for (body, reason) in bodies {
            #expect {
                _ = try FunctionTrigger(body)
            } throws: {
                "\($0)".contains(reason)
            }
        }
    }
}
