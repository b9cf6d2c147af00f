import Testing
import Tree

/// Checks numbers (reference: rtdb-protocol 6.5).
struct NumberTests {
    @Test(
        arguments: [
            ("0", 0), ("-1", -1), ("9223372036854775807", .max), ("-9223372036854775808", .min),
            ("9007199254740993", 9_007_199_254_740_993), ("1.0", 1), ("1e3", 1000), ("1E+3", 1000), ("-2.50e1", -25),
            ("0.0", 0),
            ("0e5", 0), ("9007199254740992.0", 9_007_199_254_740_992), ("1e0", 1),
        ] as [(String, Int64)])
    func `an integer stays exact`(text: String, value: Int64) throws {
        #expect(try node(text) == .int(value))
        #expect(try json(node(text)) == String(value))
    }

    @Test(
        arguments: [
            ("1.5", 1.5), ("-0.1", -0.1), ("1e-3", 0.001), ("9223372036854775808", 9_223_372_036_854_775_808),
            ("-9223372036854775809", -9_223_372_036_854_775_808), ("18446744073709551616", 18_446_744_073_709_551_616),
            ("1.1e29", 1.1e29), ("1.7976931348623157e308", .greatestFiniteMagnitude),
            ("5e-324", .leastNonzeroMagnitude), ("1e-400", 0.0),
            ("9007199254740994.0", 9_007_199_254_740_994), ("123456789012345678901234567890", 1.2345678901234568e29),
            ("0.1000000000000000055511151231257827", 0.1),
            ("2.2250738585072011e-308", Double.leastNormalMagnitude.nextDown),
            ("9007199254740993e0", 9_007_199_254_740_992), ("0.3", 0.3), ("123456789.123456789", 123_456_789.12345679),
            ("1e22", 1e22), ("1e23", 1e23), ("8.41e21", 8.41e21), ("9.5e-27", 9.5e-27), ("4.35", 4.35),
            ("4.349999999999999", 4.349999999999999),
        ] as [(String, Double)])
    func `any other is the nearest double`(text: String, value: Double) throws {
        let parsed = try node(text)
        if case .double(let number) = parsed {
            #expect(number.bitPattern == value.bitPattern)
        } else {
            #expect(parsed == Node(number: value))
        }
    }

    @Test func `zero keeps its sign`() throws {
        #expect(try node("-0") == .double(-0.0))
        #expect(try node("-0.0") == .double(-0.0))
        #expect(try json(node("-0.0e5")) == "-0.0")
        #expect(Node(number: -0.0) == .double(-0.0))
        #expect(Node(number: 0.0) == .int(0))
    }

    /// The Java SDK parses any digit string as a 64-bit integer, and crashes if it is out of range.
    @Test func `doubles beyond 64 bits are never bare digits`() {
        for value in [
            9.223372036854775808e18, -9.223372036854777856e18, 1e19, 1e20, 1.1e29, 1e15, 1e16, 1e300,
            9_007_199_254_740_994,
        ] {
            let text = json(.double(value))
            #expect(text.contains(".") || text.contains("e"), "\(text)")
            #expect(Double(text) == value)
        }
    }

    @Test(arguments: ["1e309", "-1e309", "1e99999999999999999999", String(repeating: "9", count: 400)])
    func `a number out of range is refused`(text: String) {
        #expect(parseError(text)?.kind == .value)
        #expect(parseError(text)?.reason == "the number is out of range")
    }

    @Test(arguments: [
        "-", "+1", "01", "-01", "00", "1.", ".5", "1.e5", "1e", "1e+", "1E-", "0x10", "NaN", "Infinity", "-Infinity",
        "1_000",
        "1,000", "1 2", "--1", "1.2.3", "1e5.5", "١",
    ])
    func `a malformed number is refused`(text: String) {
        #expect(parseError(text)?.kind == .syntax, "\(text)")
    }

    @Test func `a random double reads back as itself`() throws {
        var random = SeededGenerator(seed: 0x0D0B1E)
        for _ in 0..<20_000 {
            let value = Double(bitPattern: random.next())
            guard value.isFinite else { continue }
            let text = json(.double(value))
            #expect(try node(text) == Node(number: value), "\(text)")
        }
    }

    @Test func `a random short decimal reads as the standard library reads it`() throws {
        var random = SeededGenerator(seed: 0xDEC1)
        for _ in 0..<20_000 {
            var text = random.oneIn(2) ? "-" : ""
            text += String(random.next() >> UInt64(random.below(64)))
            if random.oneIn(2) { text += "." + String(random.next() >> UInt64(random.below(64))) }
            if random.oneIn(3) { text += "e" + String(random.below(60) - 30) }
            guard text.contains(".") || text.contains("e"), let expected = Double(text) else { continue }
            #expect(try node(text) == Node(number: expected), "\(text)")
        }
    }

    @Test func `a very long number takes linear time`() throws {
        let digits = String(repeating: "1234567890", count: 100_000)
        #expect(try node("0." + digits) == .double(0.12345678901234568))
        #expect(parseError(digits)?.kind == .value)
    }
}
