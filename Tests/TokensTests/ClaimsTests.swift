import Testing
import Tokens

struct ClaimsTests {
    private func read(_ text: String) throws -> ClaimValue { try ClaimsReader.value(Array(text.utf8)) }

    @Test func `all kinds of values`() throws {
        let text =
            #"{"s":"aé😀\"\\\/\b\f\n\r\t","i":-12,"n":1.5e3,"big":12345678901234567168,"t":true,"f":false,"#
            + #""z":null,"a":[1,[],{}],"google.com":{"$":"x"},"":""}"#
        let claims = try ClaimsReader.object(Array(text.utf8))
        #expect(claims["s"] == "aé😀\"\\/\u{8}\u{C}\n\r\t")
        #expect(claims["i"] == -12)
        #expect(claims["n"] == .number(1_500))
        #expect(claims["big"] == .number(12_345_678_901_234_567_168))
        #expect(claims["t"] == true)
        #expect(claims["f"] == false)
        #expect(claims["z"] == .null)
        #expect(claims["a"] == .array([1, .array([]), .object(Claims())]))
        #expect(claims["google.com"]?.object?["$"] == "x")
        #expect(claims[""] == "")
        #expect(claims["missing"] == nil)
        #expect(try ClaimsReader.object(ClaimsWriter.encode(claims)) == claims)
    }

    @Test(arguments: [
        "", " ", "{", "}", "{}x", "{} {}", "[1,]", "{,}", #"{"a":1,}"#, #"{"a"}"#, #"{"a":}"#, "{a:1}", "{'a':1}", "01",
        "-", "1.", ".5", "1e", "+1", "NaN", "Infinity", "1e999", "tru", "nul", "\"", "\"\\x\"", "\"\\u12\"",
        #""\ud800""#, #""\ud800A""#, #""\udc00""#, "\"\u{1}\"", "// c\n1", "[1 2]",
    ])
    func `what is not JSON is refused`(text: String) {
        #expect(throws: JWTError.self) { try read(text) }
    }

    @Test(arguments: [#""\ud83d""#, #""\ud83dx""#, #""\ud83d\n""#, #""\ud83d\u0041""#, #""\ude00""#])
    func `half a character is called that`(text: String) {
        #expect(throws: JWTError.malformed("a lone surrogate")) { try read(text) }
    }

    @Test(arguments: [
        #"{"a":1,"a":1}"#, #"{"a":1,"\u0061":2}"#, #"{"x":{"a":1,"b":2,"a":3}}"#,
    ])
    func `a name that comes twice is refused`(text: String) {
        #expect(throws: JWTError.malformed("a duplicate name")) { try read(text) }
    }

    @Test func `two spellings of a letter are two names`() throws {
        let claims = try ClaimsReader.object(Array("{\"é\":1,\"e\u{301}\":2}".utf8))
        #expect(claims.members.count == 2)
        #expect(claims["é"] == 1)
        #expect(claims["e\u{301}"] == 2)
    }

    @Test func `depth is bounded`() throws {
        let deep = { (levels: Int) in String(repeating: "[", count: levels) + String(repeating: "]", count: levels) }
        _ = try read(deep(32))
        #expect(throws: JWTError.self) { try read(deep(33)) }
        #expect(throws: JWTError.self) { try read(String(repeating: "[", count: 100_000)) }
    }

    @Test func `bytes that are no text are refused`() {
        for bytes: [UInt8] in [[0x22, 0xFF, 0x22], [0x22, 0xC0, 0x80, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22]] {
            #expect(throws: JWTError.self) { try ClaimsReader.value(bytes) }
        }
    }
}
