import Testing

@testable import Rules

/// Checks numbers as text in JavaScript's format: the expected texts follow ECMAScript's Number::toString.
@Suite struct NumberTextTests {
    @Test(
        arguments: [
            (0, "0"), (-0.0, "0"), (1, "1"), (-1, "-1"), (0.5, "0.5"), (-1.25, "-1.25"), (123_456_789.5, "123456789.5"),
            (0.1, "0.1"), (0.1 + 0.2, "0.30000000000000004"), (1.0 / 3, "0.3333333333333333"), (100, "100"),
            (9_007_199_254_740_991, "9007199254740991"), (9_007_199_254_740_992, "9007199254740992"),
            (-9_007_199_254_740_994, "-9007199254740994"), (1e15, "1000000000000000"), (1e16, "10000000000000000"),
            (123_456_789_012_345_683_968, "123456789012345680000"), (1e20, "100000000000000000000"), (1e21, "1e+21"),
            (-1e21, "-1e+21"), (1.5e21, "1.5e+21"), (123e20, "1.23e+22"), (1e300, "1e+300"),
            (1.7976931348623157e308, "1.7976931348623157e+308"), (0.001, "0.001"), (0.000_001, "0.000001"),
            (0.000_001_5, "0.0000015"), (1e-7, "1e-7"), (1.5e-7, "1.5e-7"), (-1.23e-10, "-1.23e-10"),
            (.leastNonzeroMagnitude, "5e-324"),
            (2.2250738585072014e-308, "2.2250738585072014e-308"), (.nan, "NaN"), (.infinity, "Infinity"),
            (-.infinity, "-Infinity"), (1_700_000_000_000, "1700000000000"), (4.35, "4.35"), (1e23, "1e+23"),
            (0.000_012_3, "0.0000123"), (12_300, "12300"), (1.000_000_000_000_000_2, "1.0000000000000002"),
        ] as [(Double, String)])
    func texts(value: Double, text: String) {
        #expect(NumberText.string(value) == text)
    }

    /// The text of any number is parsed as the same number.
    @Test(arguments: [1, 2, 3] as [UInt64]) func roundTrip(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<5_000 {
            let value = Double(bitPattern: random.next())
            guard value.isFinite else { continue }
            #expect(Double(NumberText.string(value)) == value)
            let short = Double(random.below(100_000)) / 1_000
            #expect(Double(NumberText.string(short)) == short)
            #expect(!NumberText.string(short).contains("e"))
        }
    }
}
