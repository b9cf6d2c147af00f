import Crypto
import Testing

struct EncodingTests {
    /// Vectors of RFC 4648.
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ])
    func `Base64 with padding`(text: String, encoded: String) {
        #expect(String(decoding: Base64.encode(Array(text.utf8)), as: UTF8.self) == encoded)
    }

    @Test func `Base64 has the standard alphabet`() {
        #expect(String(decoding: Base64.encode([0xFB, 0xFF, 0xBF]), as: UTF8.self) == "+/+/")
        #expect(
            String(decoding: Base64.encode(Array(0...255).suffix(6)), as: UTF8.self) == "+vv8/f7/")
    }

    @Test func `hex has lower-case digits`() {
        #expect(Hex.encode([] as [UInt8]) == "")
        #expect(Hex.encode([0, 1, 0x9A, 0xBC, 0xDE, 0xFF]) == "00019abcdeff")
    }
}
