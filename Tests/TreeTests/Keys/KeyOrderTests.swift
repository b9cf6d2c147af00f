import Testing
import Tree

/// Checks the protocol's key order (reference: rtdb-protocol 6.2).
struct KeyOrderTests {
    /// Keys in which every text sorts before all that follow.
    static let ascending = [
        "-2147483648", "-10", "-01", "-1", "-001", "0", "-0", "00", "000", "1", "2", "7", "07", "007", "10",
        "2147483647",
        "0002147483647", "", " ", " 1", "+1", "-", "--1", "-0x", "-2147483649", "-NxAbcdefgh-ijklmnop", "1 ", "1.5",
        "12345678901", "1e3", "2147483648", "9999999999", "A", "Z", "_", "a", "aa", "b", "e\u{301}", "é", "\u{D7FF}",
        "😀", "😀a", "😁", "\u{10FFFF}", "\u{E000}", "\u{FF5E}", "\u{FFFF}",
    ]

    @Test func `integers come first by value and length, texts by UTF-16 code unit`() {
        // "-01" equals "-1" in value and is longer; "-1" therefore comes first.
        var ascending = Self.ascending
        ascending.removeAll { $0 == "-01" }
        ascending.insert("-01", at: 3)
        for (index, first) in ascending.enumerated() {
            #expect(Key(first).order(against: Key(first)) == 0)
            for second in ascending[(index + 1)...] {
                #expect(Key(first).order(against: Key(second)) < 0, "\(first) < \(second)")
                #expect(Key(second).order(against: Key(first)) > 0, "\(second) > \(first)")
                #expect(Key(first) < Key(second))
                #expect(Key(first) != Key(second))
            }
        }
    }

    @Test func `the order agrees with Swift's own UTF-16 views`() {
        let texts = Self.ascending.filter { Key($0).integerValue == nil }
        for first in texts {
            for second in texts {
                let expected = Array(first.utf16).lexicographicallyPrecedes(Array(second.utf16))
                #expect((Key(first) < Key(second)) == expected, "\(first) \(second)")
                #expect((first.codeUnitOrder(against: second) < 0) == expected)
            }
        }
    }

    @Test(
        arguments: [
            ("0", 0), ("-0", 0), ("7", 7), ("007", 7), ("-12", -12), ("2147483647", .max), ("-2147483648", .min),
            ("00000000002147483647", .max),
        ] as [(String, Int32)])
    func `a key is an integer`(text: String, value: Int32) {
        #expect(Key(text).integerValue == value)
    }

    @Test(arguments: [
        "", "-", "+1", " 1", "1 ", "1a", "a1", "1.0", "1e1", "0x1", "--1", "2147483648", "-2147483649",
        "99999999999999999999",
        "١",
    ])
    func `a key is no integer`(text: String) {
        #expect(Key(text).integerValue == nil)
    }

    @Test func `keys are their bytes, not their normal form`() {
        #expect(Key("é") != Key("e\u{301}"))
        #expect(Set([Key("é"), Key("e\u{301}"), Key("é")]).count == 2)
        #expect(Key("\u{212A}") != Key("K"))
        #expect(Key("é").byteCount == 2)
    }

    @Test func `minus zero and zero zero are two children`() throws {
        let value = try node(#"{"-0":1,"00":2,"0":3}"#)
        #expect(value.keys == ["0", "-0", "00"])
        #expect(value.child(Key("-0")) == .int(1))
        #expect(value.child(Key("00")) == .int(2))
    }
}
