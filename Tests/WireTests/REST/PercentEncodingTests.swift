import TestSupport
import Testing
import Wire

@Suite struct PercentEncodingTests {
    private func decode(_ text: String, plusIsSpace: Bool = false) -> String? {
        PercentEncoding.decode(Array(text.utf8), plusIsSpace: plusIsSpace).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test func decoding() {
        #expect(decode("") == "")
        #expect(decode("a%20b") == "a b")
        #expect(decode("a+b") == "a+b")
        #expect(decode("a+b%2B", plusIsSpace: true) == "a b+")
        #expect(decode("%c3%A9") == "é")
        #expect(decode("%2525") == "%25", "once, not twice")
    }

    @Test(arguments: ["%", "%1", "%g0", "%0g", "a%", "%%20", "% 20"])
    func damaged(text: String) {
        #expect(decode(text) == nil)
    }

    @Test(arguments: [1, 2] as [UInt64])
    func anyBytesComeBack(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<500 {
            let bytes = (0..<random.below(40)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            var text: [UInt8] = []
            for byte in bytes {
                text += Array("%".utf8) + Array((byte < 16 ? "0" : "").utf8) + Array(String(byte, radix: 16).utf8)
            }
            #expect(PercentEncoding.decode(text) == bytes)
        }
    }
}
