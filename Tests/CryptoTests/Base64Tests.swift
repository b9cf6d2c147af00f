import Crypto
import Testing

/// Tests of Base64 in both alphabets, strict and tolerant.
struct Base64Tests {
    /// Vectors of RFC 4648.
    static let vectors = [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ]

    @Test(arguments: vectors)
    func `Base64 with padding`(text: String, encoded: String) {
        #expect(String(decoding: Base64.encode(Array(text.utf8)), as: UTF8.self) == encoded)
    }

    @Test(arguments: vectors)
    func `the form for URLs has no padding`(text: String, encoded: String) {
        let bare = encoded.filter { $0 != "=" }
        #expect(Base64URL.encode(Array(text.utf8)) == bare)
        #expect(Base64URL.decode(bare.utf8) == Array(text.utf8))
        let dotted = encoded.replacing("=", with: ".")
        #expect(Base64URL.decodeTolerantly(dotted.utf8, padding: UInt8(ascii: ".")) == Array(text.utf8))
    }

    @Test func `Base64 has the standard alphabet`() {
        #expect(String(decoding: Base64.encode([0xFB, 0xFF, 0xBF]), as: UTF8.self) == "+/+/")
        #expect(String(decoding: Base64.encode(Array(0...255).suffix(6)), as: UTF8.self) == "+vv8/f7/")
    }

    /// Checks each of the 64 digits with its six bits against the definition.
    @Test func `every digit has its six bits`() {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        for (value, digit) in alphabet.enumerated() {
            let bytes = Base64URL.decode([digit, UInt8(ascii: "A"), UInt8(ascii: "A"), UInt8(ascii: "A")])
            #expect(bytes == [UInt8(value << 2), 0, 0])
            #expect(Base64URL.encode([UInt8(value << 2), 0, 0]).utf8.first == digit)
        }
        for byte in UInt8.min...UInt8.max where !alphabet.contains(byte) {
            #expect(Base64URL.decode([byte, 0x41, 0x41, 0x41]) == nil)
            #expect(Base64URL.decode([0x41, 0x41, 0x41, byte]) == nil)
            let isPadding = byte == UInt8(ascii: ".")
            let tolerant = Base64URL.decodeTolerantly([0x41, byte, 0x41], padding: UInt8(ascii: "."))
            #expect((tolerant != nil) == isPadding)
        }
    }

    /// Checks all texts of up to three digits: only encoded texts are accepted.
    @Test func `exactly what encoding makes is taken`() {
        let digits = Array("AQgwBCDEF_-9".utf8)
        var texts: [[UInt8]] = [[]]
        for _ in 0..<3 { texts += texts.flatMap { text in digits.map { text + [$0] } } }
        for text in Set(texts) {
            let decoded = Base64URL.decode(text)
            if let decoded {
                #expect(Array(Base64URL.encode(decoded).utf8) == text)
            } else {
                // The bytes of these digits have another canonical text.
                let tolerant = Base64URL.decodeTolerantly(text, padding: UInt8(ascii: "."))
                #expect(tolerant.map { Array(Base64URL.encode($0).utf8) != text } ?? true)
            }
        }
    }

    @Test func `every length comes back`() {
        for count in 0..<200 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 151 + count) }
            let text = Base64URL.encode(bytes)
            #expect(text.utf8.count == (count * 8 + 5) / 6)
            #expect(Base64URL.decode(text.utf8) == bytes)
            #expect(Base64.encode(bytes).count == (count + 2) / 3 * 4)
        }
    }

    /// Checks that padding is ignored at any position, and that incomplete bytes are dropped.
    @Test(
        arguments: [
            ("", []), (".", []), ("Zg..", [0x66]), ("Z.g", [0x66]), ("Zh", [0x66]), ("Z", []), ("Zm9vYg..Zm9v", nil),
            ("Zg==", nil), ("Z g", nil), ("Z/g", nil), ("Zg\n", nil), ("é", nil),
        ] as [(String, [UInt8]?)])
    func `polling clients are read tolerantly`(text: String, expected: [UInt8]?) {
        let found = Base64URL.decodeTolerantly(text.utf8, padding: UInt8(ascii: "."))
        if text == "Zm9vYg..Zm9v" {
            // Two concatenated texts: the bits of the second do not start at a byte boundary.
            #expect(found?.prefix(4) == [0x66, 0x6F, 0x6F, 0x62])
        } else {
            #expect(found == expected)
        }
    }
}

struct HexTests {
    @Test func `hex has lower-case digits`() {
        #expect(Hex.encode([] as [UInt8]) == "")
        #expect(Hex.encode([0, 1, 0x9A, 0xBC, 0xDE, 0xFF]) == "00019abcdeff")
        for byte in UInt8.min...UInt8.max {
            let text = Hex.encode(CollectionOfOne(byte))
            #expect(text.utf8.count == 2)
            #expect(UInt8(text, radix: 16) == byte)
            #expect(text == text.lowercased())
        }
    }
}
