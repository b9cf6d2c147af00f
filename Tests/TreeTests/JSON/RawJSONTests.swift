import Testing
import Tree

struct RawJSONTests {
    @Test(arguments: [
        "null", "true", "false", "0", "-0.5e+7", "\"\\u00e9\\n\\\\\"", "[]", "{}",
        " [ 1 , [ ] , { } , { \"a\" : [ { \"\" : null } ] } ] ",
        "{\"a.b\":1,\"a.b\":{}}", "\"\\ud800\"",
    ])
    func `JSON is known`(text: String) {
        #expect(RawJSON(Array(text.utf8)).isJSON, "\(text)")
    }

    @Test(arguments: [
        "", " ", "nul", "truex", "01", "-", "1.", ".5", "1e", "1.5e-\"q\":07", "+1", "[1 2]", "[1,]", "[,1]", "[", "]",
        "[}", "{]",
        "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{1:2}", "{,}", "\"\\x\"", "\"\\u12G4\"", "\"a\nb\"", "\"", "\"\\", "1 2",
        "{}{}", "\u{FEFF}1",
    ])
    func `what is no JSON is known`(text: String) {
        #expect(!RawJSON(Array(text.utf8)).isJSON, "\(text)")
    }

    @Test func `bytes that are no UTF-8 are no JSON`() {
        #expect(!RawJSON([0x22, 0xFF, 0x22]).isJSON)
    }

    /// Nested brackets are counted without recursion.
    @Test func `depth costs no stack`() {
        let depth = 100_000
        let text = Array(repeating: UInt8(ascii: "["), count: depth) + Array(repeating: UInt8(ascii: "]"), count: depth)
        #expect(RawJSON(text).isJSON)
        #expect(!RawJSON(text + [UInt8(ascii: "]")]).isJSON)
    }
}
