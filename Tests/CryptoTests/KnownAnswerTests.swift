import Crypto
import Testing

/// Tests of digests and HMACs at lengths around block boundaries. The expected values come from another program.
struct KnownAnswerTests {
    @Test(
        arguments: [
            (
                55, "c1c8bbdc22796e28c0e15163d20899b65621d65a",
                "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"
            ),
            (
                56, "c2db330f6083854c99d4b5bfb6e8f29f201be699",
                "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"
            ),
            (
                64, "0098ba824b5c16427bd7a1122a5a442a25ec644d",
                "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"
            ),
            (
                65, "11655326c708d70319be2610e8a57d9a5b959d3b",
                "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"
            ),
        ])
    func `about the ends of blocks`(count: Int, sha1: String, sha256: String) {
        let text = [UInt8](repeating: UInt8(ascii: "a"), count: count)
        #expect(Hex.encode(Digest.sha1(text)) == sha1)
        #expect(Hex.encode(Digest.sha256(text)) == sha256)
    }

    /// Checks the vectors of RFC 4231.
    @Test(
        arguments: [
            (
                [UInt8](repeating: 0x0B, count: 20), Array("Hi There".utf8),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
            ),
            (
                Array("Jefe".utf8), Array("what do ya want for nothing?".utf8),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
            ),
            (
                [UInt8](repeating: 0xAA, count: 20), [UInt8](repeating: 0xDD, count: 50),
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
            ),
            (
                [UInt8](repeating: 0xAA, count: 131),
                Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
            ),
        ] as [([UInt8], [UInt8], String)])
    func `keyed digests`(key: [UInt8], text: [UInt8], expected: String) {
        #expect(Hex.encode(HMAC.sha256(text, key: key)) == expected)
        var hasher = HMACHasher()
        for _ in 0..<3 {
            #expect(Hex.encode(hasher.sha256(text, key: key)) == expected)
            // Neither text nor key affects the next computation.
            #expect(hasher.sha256([1], key: [2]) == HMAC.sha256([1], key: [2]))
            #expect(hasher.sha256([], key: []) == HMAC.sha256([], key: []))
        }
    }

    @Test func `a key of no bytes is a key`() {
        #expect(
            Hex.encode(HMAC.sha256([], key: [])) == "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad")
        #expect(HMAC.sha256([1], key: []) != HMAC.sha256([1], key: [1]))
        // Keys are padded with zeros to a block, so these keys are equivalent.
        #expect(HMAC.sha256([1], key: []) == HMAC.sha256([1], key: [0]))
    }

    /// Checks many texts with one hasher, each appended to another text.
    @Test(arguments: [0, 1, 20, 55, 56, 63, 64, 65, 1_000, 100_000])
    func `a hasher in use again and again`(count: Int) {
        var hasher = SHA1Hasher()
        for start in [0, 1, 17] {
            let before = [UInt8](repeating: UInt8(ascii: "x"), count: start)
            let text = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 31 + start) }
            var bytes = before + text
            hasher.replaceEnd(of: &bytes, from: start)
            #expect(bytes == before + Base64.encode(Digest.sha1(text)))
            // The digest replaces another text.
            hasher.replaceEnd(of: &bytes, from: start)
            #expect(bytes == before + Base64.encode(Digest.sha1(Base64.encode(Digest.sha1(text)))))
        }
    }

    @Test func `comparing looks at all bytes`() {
        let one = (0..<64).map { UInt8($0) }
        for index in one.indices {
            for bit in 0..<8 {
                var other = one
                other[index] ^= 1 << UInt8(bit)
                #expect(!Digest.isEqualInConstantTime(one, other))
            }
        }
        #expect(Digest.isEqualInConstantTime(one, Array(one)))
        #expect(!Digest.isEqualInConstantTime(one, []) && !Digest.isEqualInConstantTime([], one))
    }

    @Test func `errors say what is wrong and nothing of a key`() {
        #expect(CryptoError.notAKey("a private key").description == "This is not a private key.")
        #expect(CryptoError.unusableKey("it is small").description == "This key can't be used: it is small.")
        #expect(CryptoError.cannotSign.description == "Signing with the key failed.")
    }
}
