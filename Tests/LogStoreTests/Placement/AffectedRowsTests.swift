import Testing

@testable import LogStore

/// Tests of which rows an entry's path affects.
@Suite struct AffectedRowsTests {
    private static func bytes(_ texts: [String]) -> Set<[UInt8]> { Set(texts.map { Array($0.utf8) }) }

    @Test func theRowsAbove() {
        let touched = AffectedRows(Array("/a/b".utf8))
        #expect(touched.part == Array("/a/b".utf8))
        #expect(touched.above == Self.bytes(["/", "/.priority", "/a", "/a/.priority"]))
        #expect(AffectedRows(Array("/".utf8)).part.isEmpty)
    }

    /// Checks that two keys that Unicode regards as equal (two code points and one) are different keys.
    @Test func keysOfTheSameText() {
        let one = AffectedRows(Array("/caf\u{E9}/x".utf8))
        let other = AffectedRows(Array("/cafe\u{301}/x".utf8))
        #expect(one.part != other.part)
        #expect(one.above.intersection(other.above) == Self.bytes(["/", "/.priority"]))
    }

    /// Checks a key that begins with a combining mark, which forms one character with the slash before it.
    @Test func aKeyThatBeginsWithACombiningMark() {
        let touched = AffectedRows(Array("/a/\u{301}b".utf8))
        #expect(touched.above == Self.bytes(["/", "/.priority", "/a", "/a/.priority"]))
    }

    @Test func longPathsAreCut() {
        let long = "/" + String(repeating: "x", count: 1_000)
        #expect(AffectedRows(Array((long + long).utf8)).part == Array(long.utf8))
    }
}
