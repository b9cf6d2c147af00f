import Crypto
import TestSupport
import Testing

struct KeyTests {
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

    @Test func `a new key is read from its texts`() throws {
        let made = try RSAPrivateKey.generate()
        let pem = try made.pem()
        #expect(String(decoding: pem, as: UTF8.self).hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
        let text = Array("signed".utf8)
        let der = try made.publicKeyDER()
        let key = try RSAPublicKey(der: der)
        #expect(key.isValidSignature(try RSAPrivateKey(pem: pem).sign(text), of: text))
        #expect(!key.isValidSignature(try TestKeys.privateKey().sign(text), of: text))
        for bytes: [UInt8] in [[], [0], der.dropLast(), der + [0], Array("x".utf8), pem] {
            #expect(throws: CryptoError.self) { try RSAPublicKey(der: bytes) }
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
        // With an exponent of 1, every text is its own signature.
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
