import Testing
import Wire

@Suite struct ScriptTextTests {
    @Test(arguments: [
        ("", ""), ("plain", "plain"), ("a\u{2028}b\u{2029}", "a\\u2028b\\u2029"), ("</script>", "<\\/script>"),
        ("< /<", "< /<"), ("\u{2027}\u{202A}é", "\u{2027}\u{202A}é"), ("<\u{2028}</", "<\\u2028<\\/"),
    ])
    func escapes(text: String, expected: String) {
        #expect(String(decoding: ScriptText.escaped(Array(text.utf8)), as: UTF8.self) == expected)
    }

    @Test func cutOffAtTheEnd() {
        for end: [UInt8] in [[0xE2], [0xE2, 0x80], [0x3C]] { #expect(ScriptText.escaped(end) == end) }
    }
}
