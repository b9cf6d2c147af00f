import Crypto
import TestSupport
import Testing

struct KeyTests {
    /// RFC 4231, cases 1, 2 and 6 (a key longer than a block).
    @Test(arguments: [
        (
            [UInt8](repeating: 0x0B, count: 20), "Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        ),
        (
            Array("Jefe".utf8), "what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        ),
        (
            [UInt8](repeating: 0xAA, count: 131), "Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        ),
    ])
    func `HMAC-SHA-256`(key: [UInt8], text: String, expected: String) {
        #expect(Hex.encode(HMAC.sha256(Array(text.utf8), key: key)) == expected)
    }

    @Test func `HMAC of nothing with no key`() {
        #expect(
            Hex.encode(HMAC.sha256([], key: [])) == "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad")
    }

    @Test func `a signature holds for its text and its key, in both forms of the key`() throws {
        let text = Array("signed".utf8)
        let signature = try TestKeys.privateKey().sign(text)
        let modulus = try #require(Base64URL.decode(TestKeys.modulus.utf8))
        let exponent = try #require(Base64URL.decode(TestKeys.exponent.utf8))
        for key in [try TestKeys.publicKey(), try RSAPublicKey(modulus: modulus, exponent: exponent)] {
            #expect(key.isValidSignature(signature, of: text))
            #expect(!key.isValidSignature(signature, of: Array("signee".utf8)))
            #expect(!key.isValidSignature(signature.dropLast(), of: text))
            #expect(!key.isValidSignature([], of: text))
            for index in stride(from: 0, to: signature.count, by: 37) {
                var changed = signature
                changed[index] ^= 1
                #expect(!key.isValidSignature(changed, of: text))
            }
        }
    }

    @Test func `leading zeros of a modulus mean nothing`() throws {
        let modulus = try #require(Base64URL.decode(TestKeys.modulus.utf8))
        let text = Array("signed".utf8)
        let key = try RSAPublicKey(modulus: [0] + modulus, exponent: [0, 1, 0, 1])
        #expect(key.isValidSignature(try TestKeys.privateKey().sign(text), of: text))
    }

    @Test func `keys that are too weak or of another kind are refused`() throws {
        #expect(throws: CryptoError.self) { try RSAPublicKey(certificatePEM: TestKeys.smallCertificatePEM) }
        #expect(throws: CryptoError.self) { try RSAPublicKey(certificatePEM: TestKeys.curveCertificatePEM) }
        #expect(throws: CryptoError.self) { try RSAPublicKey(certificatePEM: "-----BEGIN CERTIFICATE-----") }
        #expect(throws: CryptoError.self) { try RSAPublicKey(certificatePEM: TestKeys.privatePEM) }
        #expect(throws: CryptoError.self) { try RSAPrivateKey(pem: Array(TestKeys.certificatePEM.utf8)) }
        let modulus = try #require(Base64URL.decode(TestKeys.modulus.utf8))
        // With an exponent of 1 every text is its own signature.
        for exponent: [UInt8] in [[], [0], [1], [0, 1], [2], Array(repeating: 255, count: 9)] {
            #expect(throws: CryptoError.self) { try RSAPublicKey(modulus: modulus, exponent: exponent) }
        }
        #expect(throws: CryptoError.self) { try RSAPublicKey(modulus: [], exponent: [1, 0, 1]) }
        #expect(throws: CryptoError.self) {
            try RSAPublicKey(modulus: Array(modulus.prefix(100)) + [1], exponent: [1, 0, 1])
        }
        #expect(throws: CryptoError.self) {
            try RSAPublicKey(modulus: Array(repeating: 255, count: 2_000), exponent: [1, 0, 1])
        }
    }
}
