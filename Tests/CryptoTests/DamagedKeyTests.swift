import Crypto
import TestSupport
import Testing

/// Checks that keys and signatures of arbitrary bytes are refused without other effects.
struct DamagedKeyTests {
    @Test(arguments: [
        "", "x", "-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "\0",
    ])
    func `what is no certificate`(text: String) {
        #expect(throws: CryptoError.notAKey("an X.509 certificate in PEM")) { try RSAPublicKey(certificatePEM: text) }
        #expect(throws: CryptoError.notAKey("a private key in PEM without a password")) {
            try RSAPrivateKey(pem: Array(text.utf8))
        }
    }

    @Test func `too long a text is not read`() {
        let long = TestKeys.certificatePEM + String(repeating: "\n", count: 64 * 1024)
        #expect(throws: CryptoError.self) { try RSAPublicKey(certificatePEM: long) }
        #expect(throws: CryptoError.self) {
            try RSAPrivateKey(pem: Array((TestKeys.privatePEM + String(repeating: "\n", count: 64 * 1024)).utf8))
        }
    }

    @Test(arguments: 1..<9 as Range<UInt64>)
    func `damaged texts`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for original in [TestKeys.certificatePEM, TestKeys.privatePEM] {
            for _ in 0..<150 {
                var text = Array(original.utf8)
                for _ in 0...random.below(3) {
                    let offset = random.below(text.count)
                    if random.oneIn(3) {
                        text.removeSubrange(offset..<min(text.count, offset + 1 + random.below(40)))
                    } else {
                        text[offset] = UInt8(random.below(128))
                    }
                }
                // Some remain valid keys, and must be usable.
                if let key = try? RSAPublicKey(certificatePEM: String(decoding: text, as: UTF8.self)) {
                    #expect(!key.isValidSignature([UInt8](repeating: 1, count: 256), of: [1, 2, 3]))
                }
                if let key = try? RSAPrivateKey(pem: text) { _ = try? key.sign([1, 2, 3]) }
            }
        }
    }

    @Test func `a signature is for its text, its key and in one piece`() throws {
        let key = try TestKeys.publicKey()
        let text = Array("text".utf8)
        let signature = try TestKeys.privateKey().sign(text)
        #expect(key.isValidSignature(signature, of: text))
        #expect(!key.isValidSignature(signature, of: text + [0]))
        #expect(!key.isValidSignature([], of: text))
        #expect(!key.isValidSignature(signature + [0], of: text))
        #expect(!key.isValidSignature(Array(signature.dropLast()), of: text))
        for index in stride(from: 0, to: signature.count, by: 17) {
            var other = signature
            other[index] ^= 0x10
            #expect(!key.isValidSignature(other, of: text))
        }
        // The signature is deterministic, because its padding has no random part.
        #expect(try TestKeys.privateKey().sign(text) == signature)
    }

    @Test func `numbers that are no key`() throws {
        let modulus = try #require(Base64URL.decode(TestKeys.modulus.utf8))
        for (modulus, exponent) in [
            ([], [1, 0, 1]), (modulus, []), (modulus, [0]), (modulus, [1]), (modulus, [0, 0, 1]), (modulus, [2]),
            (Array(modulus.dropLast()) + [0], [1, 0, 1]), (Array(modulus.prefix(100)) + [1], [1, 0, 1]),
            (modulus, [UInt8](repeating: 1, count: 9)), ([UInt8](repeating: 0xFF, count: 1_026), [1, 0, 1]),
        ] as [([UInt8], [UInt8])] {
            #expect(throws: CryptoError.self) { try RSAPublicKey(modulus: modulus, exponent: exponent) }
        }
        // Leading zeros do not change a number.
        let key = try RSAPublicKey(modulus: [0] + modulus, exponent: [0, 0, 1, 0, 1])
        #expect(key.isValidSignature(try TestKeys.privateKey().sign([7]), of: [7]))
    }
}
