import LogStore
import Testing
import Tree

@testable import Feeds

/// Tests of the messages that a feed makes of a change.
@Suite struct FeedMatcherTests {
    /// The author is part of the message, and the filter can use it.
    @Test(arguments: [
        ("auth.type == 'user' && auth.uid == 'ada'", [true, false, false, false]),
        ("auth.type != 'admin'", [true, false, true, true]), ("auth.uid == null", [false, true, true, true]),
        ("auth.uid.matches(/^a/)", [true, false, false, false]), ("auth != null", [true, true, true, true]),
        ("newData.exists()", [true, true, true, true]),
    ])
    func filtersSeeTheAuthor(_ filter: String, _ admitted: [Bool]) throws {
        let definition = try FeedDefinition.read(
            Array(#"{"path":"/a/{x}","filter":"\#(filter)"}"#.utf8), name: "f")
        let matcher = FeedMatcher(definition)
        let origins: [Origin?] = [
            Origin(uid: "ada", isAdmin: false, via: .rest, address: nil),
            Origin(uid: nil, isAdmin: true, via: .cli, address: nil),
            Origin(uid: nil, isAdmin: false, via: .ws, address: nil), nil,
        ]
        let authors = [EntryAuthor(.user, uid: "ada"), EntryAuthor(.admin), EntryAuthor(.nobody), .unknown]
        let path = Path.root.appending(Key("a")).appending(Key("k"))
        let after = Node(children: [(Key("a"), Node(children: [(Key("k"), .int(1))]))])
        for (index, origin) in origins.enumerated() {
            let entry = Entry(
                seq: 1, committedAt: 0, operation: .set, path: path, changes: [Change(path: path, value: .int(1))],
                origin: origin)
            let message = matcher.message(
                RecordDifference(path: path, before: .null, after: .int(1)), at: FeedPosition(seq: 1, index: 0),
                of: EntryFacts(entry), before: .null, after: after)
            #expect((message != nil) == admitted[index], "\(filter), \(authors[index])")
            if let message { #expect(message.author == authors[index]) }
            if let message {
                let stored = FeedMessage(
                    position: message.position, key: message.key,
                    content: .stored(message.json(namespace: "n", attempt: nil)))
                #expect(stored.author == authors[index])
            }
        }
    }
}
