import Testing
import Tree

/// Tests of the authors of entries.
@Suite struct EntryAuthorTests {
    @Test(arguments: [
        (Origin(uid: "ada", isAdmin: false, via: .rest, address: "::1"), EntryAuthor(.user, uid: "ada")),
        (Origin(uid: nil, isAdmin: false, via: .ws, address: nil), EntryAuthor(.nobody)),
        (Origin(uid: nil, isAdmin: true, via: .cli, address: nil), EntryAuthor(.admin)),
        (Origin(uid: "root", isAdmin: true, via: .rest, address: nil), EntryAuthor(.admin, uid: "root")),
        // An administrator that acts as a user: the rules judge the user.
        (
            Origin(uid: "ada", isAdmin: false, isOverride: true, via: .rest, address: nil),
            EntryAuthor(.user, uid: "ada")
        ),
        (
            Origin(json: Array(#"{"uid" : null, "admin" : true, "via" : "sql", "role" : "app"}"#.utf8)),
            EntryAuthor(.admin)
        ),
        (Origin(json: Array(#"{"uid":"é\"\u0000"}"#.utf8)), EntryAuthor(.user, uid: "é\"\u{0}")),
        (Origin(json: Array("nonsense".utf8)), .unknown), (Origin(json: Array("{}".utf8)), EntryAuthor(.nobody)),
    ])
    func origins(_ origin: Origin, _ author: EntryAuthor) {
        #expect(EntryAuthor(of: origin) == author)
        var writer = JSONWriter(form: .plain)
        author.write(&writer)
        #expect(EntryAuthor(written: RawJSON(writer.bytes)) == author)
    }

    @Test func theUpstreamHasNoAuthor() { #expect(EntryAuthor(of: nil) == .unknown) }

    @Test func theWrittenForm() {
        var writer = JSONWriter(form: .plain)
        EntryAuthor(.user, uid: "a\"b").write(&writer)
        EntryAuthor.unknown.write(&writer)
        #expect(
            String(decoding: writer.bytes, as: UTF8.self)
                == #"{"type":"user","uid":"a\"b"}{"type":"unknown","uid":null}"#)
        for text in ["{}", "[]", #"{"type":"root"}"#, #"{"type":7,"uid":"a"}"#] {
            #expect(EntryAuthor(written: RawJSON(Array(text.utf8))) == nil)
        }
    }

    @Test func theVariableOfFilters() {
        #expect(EntryAuthor(.user, uid: "ada").node.child(Key("uid")) == .string("ada"))
        #expect(EntryAuthor(.nobody).node.child(Key("type")) == .string("none"))
        #expect(EntryAuthor(.nobody).node.child(Key("uid")).isNull)
    }
}
