import Testing
import Tree

/// Checks the strictness of the text itself: syntax, UTF-8, escapes, and the reported position of an error.
struct JSONTextTests {
    @Test(arguments: [
        ("", 1, 1), ("   ", 1, 4), ("\n\n", 3, 1), ("nul", 1, 1), ("nulL", 1, 1), ("tru", 1, 1), ("x", 1, 1),
        ("'a'", 1, 1),
        ("{", 1, 2), ("{\"a\"", 1, 5), ("{\"a\":", 1, 6), ("{\"a\":1", 1, 7), ("{\"a\":1,", 1, 8), ("{\"a\":1,}", 1, 8),
        ("{a:1}", 1, 2), ("{\"a\" 1}", 1, 6), ("{,}", 1, 2), ("[1,]", 1, 4), ("[1 2]", 1, 4), ("[,1]", 1, 2),
        ("[", 1, 2), ("]", 1, 1),
        ("1 2", 1, 3), ("{}{}", 1, 3), ("null,", 1, 5), ("\"abc", 1, 5), ("\"a\nb\"", 1, 3), ("\"a\tb\"", 1, 3),
        ("{\n  \"a\": 1,\n  \"b\": tru\n}", 3, 8), ("[\r\n1,\r\nx]", 3, 1), ("\u{FEFF}1", 1, 1), ("/**/1", 1, 1),
        ("1 //", 1, 3),
        ("{\"é\":x}", 1, 7), ("\u{A0}1", 1, 1), ("\"\\x\"", 1, 2), ("\"\\u12\"", 1, 6), ("\"\\u12G4\"", 1, 6),
        ("\"\\", 1, 3),
        ("{\"a\":-}", 1, 7), ("[01]", 1, 2),
    ])
    func `a syntax error has a position`(text: String, line: Int, column: Int) {
        let error = parseError(text)
        #expect(error?.kind == .syntax, "\(text)")
        #expect(error?.line == line, "\(text)")
        #expect(error?.column == column, "\(text)")
    }

    @Test func `an error says its position`() {
        #expect(parseError("[1,\n 2")?.description == "Line 2, column 3: expected , or ] in an array")
    }

    @Test func `every control character must be escaped`() {
        for byte in UInt8(0)..<0x20 {
            #expect(parseError([0x22, byte, 0x22])?.kind == .syntax)
            #expect(parseError([0x22, 0x5C, 0x6E, byte, 0x22])?.kind == .syntax)
        }
        #expect(parseError([0x22, 0x7F, 0x22]) == nil)
    }

    @Test(arguments: [
        (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"), (#""\u0041\u00e9\u20AC""#, "Aé€"), (#""\ud83d\ude00""#, "😀"),
        (#""\uD83D\uDE00x""#, "😀x"), (#""\u0000""#, "\0"), (#""a\u0000b""#, "a\0b"),
        (#""\uffff\ue000""#, "\u{FFFF}\u{E000}"),
        (#""😀é""#, "😀é"), (#""\udbff\udfff""#, "\u{10FFFF}"), (#""\u007f""#, "\u{7F}"),
    ])
    func `an escape means a character`(text: String, expected: String) throws {
        #expect(try node(text) == .string(expected))
    }

    @Test(arguments: [
        #""\ud83d""#, #""\ude00""#, #""\ud83dx""#, #""\ud83d\n""#, #""\ud83d\ud83d""#, #""\ud83d\u0041""#,
        #""\ude00\ud83d""#,
        #""\ud83d\"#, #""\ud83d\u"#, #"{"\ud83d":1}"#,
    ])
    func `a lone surrogate is refused`(text: String) {
        #expect(parseError(text)?.kind == .syntax)
    }

    @Test(
        arguments: [
            [0x80], [0xC3], [0xC3, 0x28], [0xC0, 0x80], [0xC1, 0xBF], [0xE0, 0x80, 0x80], [0xED, 0xA0, 0x80],
            [0xED, 0xB0, 0x80],
            [0xF0, 0x80, 0x80, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFF], [0xFE], [0xE2, 0x82],
            [0xF0, 0x9F, 0x98], [0x61, 0xBF, 0x61],
        ] as [[UInt8]])
    func `bytes that are not UTF-8 are refused`(bytes: [UInt8]) {
        #expect(parseError([0x22] + bytes + [0x22])?.kind == .syntax)
        #expect(parseError([0x22, 0x5C, 0x6E] + bytes + [0x22])?.kind == .syntax)
        #expect(parseError([0x7B, 0x22] + bytes + Array("\":1}".utf8))?.kind == .syntax)
        #expect(parseError(bytes)?.kind == .syntax)
        // Far into a long text, after bytes that are skipped in blocks.
        let long = Array(repeating: UInt8(ascii: "x"), count: 100)
        #expect(parseError([0x22] + long + bytes + long + [0x22])?.kind == .syntax)
    }

    @Test func `every prefix of a text is refused with a position inside it`() throws {
        let text = Array(
            #"{"a":[1,-2.5e3,"xA😀\n",true,{".value":null,".priority":1}],"é":{".sv":{"increment":1}}}"#.utf8)
        #expect(parseError(text) == nil)
        for end in 0..<text.count {
            let error = try #require(parseError(Array(text[..<end])))
            #expect(error.line == 1)
            #expect((1...(end + 1)).contains(error.column))
        }
    }

    @Test func `text in foreign memory parses alike`() throws {
        let text = Array(#"{"a":[1,2]}"#.utf8)
        let parsed = try text.withUnsafeBytes { try JSONParser.parse($0) }
        #expect(try parsed == node(#"{"a":[1,2]}"#))
        #expect(throws: JSONError.self) { try JSONParser.parse(UnsafeRawBufferPointer(start: nil, count: 0)) }
    }
}
