import Testing
import Tree

@Suite struct WriteNameTests {
    @Test func textsComeBack() throws {
        for text in ["abcdefgh.1", "-_ABCdef09.42", String(repeating: "z", count: 40) + ".9007199254740992"] {
            let name = try #require(WriteName(text))
            #expect(name.text == text)
            #expect(WriteName(writer: name.writer, number: name.number) == name)
        }
    }

    @Test(arguments: [
        "", ".", "abcdefgh", "abcdefgh.", ".1", "abcdefg.1", "abcdefgh.0", "abcdefgh.01", "abcdefgh.-1", "abcdefgh.+1",
        "abcdefgh.1.2", "abc defgh.1", "abcdefgé.1", "abcdefgh.9007199254740993", "abcdefgh.99999999999999999999",
        "abcdefgh.1 ", "abcdefgh.١", "abcdefgh\0.1", String(repeating: "z", count: 41) + ".1", "{a},{b}{c}.1",
    ])
    func whatIsNoName(text: String) { #expect(WriteName(text) == nil) }

    @Test func writersAreNew() {
        let writers = (0..<1_000).map { _ in WriteName.makeWriter() }
        #expect(Set(writers).count == 1_000)
        #expect(writers.allSatisfy { WriteName.isWriter($0) && $0.utf8.count == 26 })
    }
}
