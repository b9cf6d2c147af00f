import Crypto
import Testing

struct DigestTests {
    /// Checks the vectors of FIPS 180-2.
    @Test(arguments: [
        (
            "", "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        ),
        (
            "abc", "a9993e364706816aba3e25717850c26c9cd0d89d",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        ),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        ),
    ])
    func `published vectors`(text: String, sha1: String, sha256: String) {
        #expect(Hex.encode(Digest.sha1(Array(text.utf8))) == sha1)
        #expect(Hex.encode(Digest.sha256(Array(text.utf8))) == sha256)
    }

    @Test func `a million letters`() {
        let text = Array(repeating: UInt8(ascii: "a"), count: 1_000_000)
        #expect(Hex.encode(Digest.sha1(text)) == "34aa973cd4c4daa4f61eeb2bdbad27316534016f")
        #expect(Hex.encode(Digest.sha256(text)) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
    }

    @Test func `constant-time equality is equality`() {
        #expect(Digest.isEqualInConstantTime([], []))
        #expect(Digest.isEqualInConstantTime([1, 2], [1, 2]))
        #expect(!Digest.isEqualInConstantTime([1, 2], [1, 3]))
        #expect(!Digest.isEqualInConstantTime([1, 2], [1, 2, 3]))
    }
}
