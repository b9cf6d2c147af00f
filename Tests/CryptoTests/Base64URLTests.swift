import Crypto
import Testing

struct Base64URLTests {
    @Test func `every length comes back`() {
        for count in 0..<70 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 151 + 7) }
            #expect(Base64URL.decode(Base64URL.encode(bytes).utf8) == bytes)
        }
        #expect(Base64URL.encode([0xFB, 0xFF, 0xBF]) == "-_-_")
    }

    /// Checks that each byte string has exactly one text. Otherwise a token could be changed and remain valid.
    @Test(arguments: ["A", "AAAAA", "AA==", "AB", "AAB", "+/+/", "AA A", "AA\n", "AA=", "=", "é", "AA.", "A\u{0}AA"])
    func `what encoding never makes is refused`(text: String) {
        #expect(Base64URL.decode(text.utf8) == nil)
    }
}
