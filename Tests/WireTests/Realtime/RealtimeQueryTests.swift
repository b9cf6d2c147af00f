import Testing
import Tree

@testable import Wire

@Suite struct RealtimeQueryTests {
    private func query(_ text: String) throws -> Query? { try QueryObject.parse(RawJSON(Array(text.utf8))) }

    @Test func whatSelectsEverythingIsNoQuery() throws {
        #expect(try QueryObject.parse(nil) == nil)
        for text in ["null", "{}", "{\"i\":\".key\"}", "{\"i\":\"a/b\"}", "{\"vf\":\"r\"}", "{\"sn\":\"x\"}"] {
            #expect(try query(text) == nil, "\(text)")
        }
    }

    @Test func indexes() throws {
        #expect(try query("{\"l\":1}")?.index == .priority)
        #expect(try query("{\"l\":1,\"i\":\".priority\"}")?.index == .priority)
        #expect(try query("{\"l\":1,\"i\":\".key\"}")?.index == .key)
        #expect(try query("{\"l\":1,\"i\":\".value\"}")?.index == .value)
        #expect(try query("{\"l\":1,\"i\":\"a/b\"}")?.index == .child(Path(splitting: "a/b")))
    }

    @Test func limits() throws {
        #expect(try query("{\"l\":3,\"vf\":\"l\"}")?.limit == .first(3))
        #expect(try query("{\"l\":3}")?.limit == .first(3))
        #expect(try query("{\"l\":3,\"vf\":\"r\"}")?.limit == .last(3))
    }

    @Test func bounds() throws {
        let both = try #require(try query("{\"sp\":1,\"sn\":\"a\",\"sin\":false,\"ep\":\"z\",\"en\":\"[MAX_NAME]\"}"))
        #expect(both.start == .init(value: .init(.int(1)), key: Key("a"), isInclusive: false))
        #expect(both.end == .init(value: .init(.string("z")), key: Key("[MAX_NAME]"), isInclusive: true))
        // A bound may be null, and its name any text: clients invent names (reference: rtdb-protocol 3.1).
        #expect(try query("{\"sp\":null}")?.start == .init(value: .init(.null)))
        let long = String(repeating: "\u{FFFF}", count: 786)
        #expect(try query("{\"ep\":1,\"en\":\"\(long)\"}")?.end?.key == Key(long))
        #expect(try query("{\"i\":\".key\",\"sp\":\"a.$#[]/\"}")?.start?.value == .init(.string("a.$#[]/")))
    }

    @Test(arguments: [
        "5", "[]", "\"x\"", "{\"i\":5,\"l\":1}", "{\"i\":\"\",\"l\":1}", "{\"i\":\"a.b\",\"l\":1}",
        "{\"i\":\".other\",\"l\":1}",
        "{\"l\":0}", "{\"l\":-1}", "{\"l\":1.5}", "{\"l\":\"1\"}", "{\"l\":null}", "{\"l\":4294967296}",
        "{\"l\":1,\"vf\":\"x\"}",
        "{\"sp\":{}}", "{\"sp\":[1]}", "{\"ep\":{\".sv\":\"timestamp\"}}", "{\"sp\":1,\"sn\":5}",
        "{\"i\":\".key\",\"sp\":5}",
        "{\"i\":\".key\",\"ep\":null}",
    ]) func whatIsNoQuery(text: String) {
        #expect(throws: MessageError.self) { try query(text) }
    }
}
