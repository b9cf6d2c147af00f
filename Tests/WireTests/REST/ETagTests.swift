import TestSupport
import Testing
import Tree
import Wire

@Suite struct ETagTests {
    @Test func tagsAreHashes() throws {
        #expect(ETag.of(.null) == "null_etag")
        // The exchange of the protocol reference (7.4).
        #expect(ETag.of(.string("v1")) == "hdGQJEizTB/UAh58ETiFzAnNCIs=")
        #expect(ETag.of(.string("v2")) == "XS9UG724sh+K2LabSCIPNPQRCYM=")
        #expect(ETag.of(Node.int(1).withPriority(.int(2))) != ETag.of(.int(1)), "priorities count")
    }

    @Test(arguments: [
        ("null_etag", ""), ("\"null_etag\"", ""), ("abc=", "abc="), ("\"abc=\"", "abc="), ("", ""), ("\"", "\""),
        ("\"\"", ""), ("\"abc", "\"abc"), ("abc\"", "abc\""), ("W/\"abc\"", "W/\"abc\""), ("NULL_ETAG", "NULL_ETAG"),
    ]) func whatAClientNames(header: String, hash: String) {
        #expect(ETag.hash(header) == hash)
    }

    @Test(arguments: [421, 422] as [UInt64]) func aTagNamesItsValue(seed: UInt64) {
        var generator = TreeGenerator(seed: seed)
        for _ in 0..<200 {
            let value = generator.tree(depth: 3)
            #expect(ETag.hash(ETag.of(value)) == value.hash)
            #expect(ETag.hash("\"\(ETag.of(value))\"") == value.hash)
        }
    }
}
