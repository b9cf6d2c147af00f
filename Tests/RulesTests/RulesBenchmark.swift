import Foundation
import Rules
import Testing
import Tree

/// Measures the time to judge a write of a chat. Run with `PATHMIRROR_BENCHMARK=1 swift test -c release --filter
/// RulesBenchmark` (and `-Xswiftc -enable-testing -Xswiftc -cross-module-optimization`).
@Suite(.enabled(if: ProcessInfo.processInfo.environment["PATHMIRROR_BENCHMARK"] != nil), .serialized)
struct RulesBenchmark {
    static let chat = #"""
        {
          "rules": {
            "rooms": {
              "$room": {
                ".read": "auth != null && root.child('members/' + $room + '/' + auth.uid).exists()",
                "messages": {
                  "$message": {
                    // Members only, one message a second.
                    ".write": "auth != null && !data.exists() && newData.exists()
                        && root.child('members/' + $room + '/' + auth.uid).val() === true
                        && (!root.child('last/' + auth.uid).exists()
                            || root.child('last').child(auth.uid).val() < now - 1000)",
                    ".validate": "newData.hasChildren(['from', 'text', 'sentAt', 'kind', 'color'])",
                    "from": { ".validate": "newData.val() === auth.uid" },
                    "text": {
                      ".validate": "newData.isString() && newData.val().length > 0 && newData.val().length <= 500"
                    },
                    "sentAt": { ".validate": "newData.val() === now" },
                    "kind": { ".validate": "newData.val() === 'plain' || newData.val() === 'action'" },
                    "color": { ".validate": "newData.isString() && newData.val().matches(/^#[0-9a-f]{6}$/)" },
                    "$other": { ".validate": false },
                  },
                },
              },
            },
            "last": { "$uid": { ".write": "auth.uid === $uid", ".validate": "newData.val() === now" } },
          },
        }
        """#

    @Test func nanosecondsAnOperation() throws {
        let rules = try rules(Self.chat)
        let uid = "kR3vXwq0T8cZ1mYbN5dLfJ7hGs92"
        let now: Int64 = 1_700_000_000_000
        var members: [(Key, Node)] = (0..<200).map { (Key("member\($0)"), .bool(true)) }
        members.append((Key(uid), .bool(true)))
        let root = Node.null.replacing("members/lobby", with: Node(children: members))
            .replacing(Path([Key("last"), Key(uid)]), with: .int(now - 5000))
        let message = try JSONParser.parse(
            """
            {"from": "\(uid)", "text": "hello there, how are you doing today?", "sentAt": \(now), "kind": "plain",
            "color": "#00ff7f"}
            """)
        let path: Path = "rooms/lobby/messages/-Nx1abcdefghijklmnop"
        let new = root.replacing(path, with: message)
        let auth = AuthContext(
            auth: Node(children: [(Key("uid"), .string(uid)), (Key("provider"), .string("password"))]))
        func measure(_ name: String, _ body: () -> Decision) {
            let count = 100_000
            var allowed = 0
            let time = ContinuousClock().measure { for _ in 0..<count where body().isAllowed { allowed += 1 } }
            #expect(allowed == 0 || allowed == count)
            let nanoseconds = (time / count).components.attoseconds / 1_000_000_000
            FileHandle.standardError.write(Data("\(name): \(nanoseconds) ns\n".utf8))
        }
        measure("a message, allowed") { rules.mayWrite([path], root: root, newRoot: new, auth: auth, now: now) }
        measure("a message, denied") {
            rules.mayWrite([path], root: root, newRoot: new, auth: .unauthenticated, now: now)
        }
        measure("a room, read") { rules.mayRead("rooms/lobby", query: .plain, root: root, auth: auth, now: now) }
    }
    @Test func millisecondsToCompileALargeDocument() throws {
        let rule = "auth != null && root.child('members/' + $x + '/' + auth.uid).val() === true && newData.val() <= now"
        let nodes = (0..<1600).map { "\"node\($0)\": {\"$x\": {\".write\": \"\(rule)\"}}" }
        let text = "{\"rules\": {\(nodes.joined(separator: ",\n"))}}"
        let time = try ContinuousClock().measure { _ = try rules(text) }
        FileHandle.standardError.write(Data("compiling \(text.utf8.count) bytes: \(time)\n".utf8))
    }
}
