import Testing

@testable import Rules

/// Checks matches of compiled regular expressions that the recorded answers (`RegexOracleTests`) don't cover.
@Suite struct RegexTests {
    private func regex(_ pattern: String, ignoresCase: Bool = false) throws -> Regex {
        try Regex(RegexLiteral(pattern: pattern, ignoresCase: ignoresCase))
    }

    /// Checks counts around RE2's limit, alone and within others.
    @Test(arguments: [
        (0, 999), (0, 1000), (0, 1001), (0, 1999), (0, 2000), (0, 2001), (0, 3500), (1, 1001), (1000, 1000),
        (1000, 1001),
        (1001, 1001), (1500, 3700), (2000, 2000), (2001, 4003), (999, 2000), (7, 8),
    ]) func largeCounts(low: Int, high: Int) throws {
        func copies(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }
        let single = try regex("^a{\(low),\(high)}b$")
        let pair = try regex("^(a{2}){\(low),\(high)}b$")
        let open = try regex("^a{\(low),}b$")
        for count in Set([0, low - 1, low, low + 1, (low + high) / 2, 999, 1000, 1001, 2000, high - 1, high, high + 1])
        where count >= 0 {
            let isInside = count >= low && count <= high
            #expect(single.matches(copies("a", count) + "b") == isInside, "\(count)")
            #expect(pair.matches(copies("aa", count) + "b") == isInside, "\(count) pairs")
            #expect(!pair.matches(copies("aa", count) + "ab"), "\(count) pairs and one")
            #expect(open.matches(copies("a", count) + "b") == (count >= low), "\(count) or more")
        }
    }

    @Test func countsOfCounts() throws {
        for (pattern, least, most) in [
            ("^((a{30}){40}){2}$", 2400, 2400), ("^(a{501}){0,3}$", 0, 1503), ("^(a{1000}){0,3}$", 0, 3000),
            ("^((a{0,10}){0,20}){0,30}$", 0, 6000), ("^(a{600}){3,}$", 1800, 10_000),
        ] {
            let regex = try regex(pattern)
            let step =
                pattern.contains("501") ? 501 : pattern.contains("1000") ? 1000 : pattern.contains("600") ? 600 : 1
            for count in [0, 1, 501, 600, 1000, 1002, 1503, 1800, 1801, 2399, 2400, 2401, 3000, 4000, 6000, 6001, 9600]
            {
                let isInside = count >= least && count <= most && count % step == 0
                #expect(regex.matches(String(repeating: "a", count: count)) == isInside, "\(pattern), \(count)")
            }
        }
    }

    /// Checks random sets of units, each unit at the edge of a range, and the bytes of pairs.
    @Test func setsOfUnits() throws {
        var random = SeededGenerator(seed: 3)
        for _ in 0..<150 {
            var ranges: [ClosedRange<UInt16>] = []
            for _ in 0...random.below(5) {
                let low = UInt16(random.below(random.chance(40) ? 0x300 : 0xD7FF))
                let width = UInt16(random.pick([0, 1, 0xFF, 0x100, random.below(0x1000)]))
                ranges.append(low...min(low + width, 0xD7FF))
            }
            let set = UnitSet(ranges)
            #expect(set.complement.complement == set && set.union(set.complement) == .all)
            let text = "[" + ranges.map { "\\\(character($0.lowerBound))-\\\(character($0.upperBound))" }.joined() + "]"
            guard !ranges.contains(where: { isSet($0.lowerBound) || isSet($0.upperBound) }) else { continue }
            let inside = try regex("^\(text)$")
            let outside = try regex("^[^\(text.dropFirst())$")
            for range in ranges {
                for unit in [range.lowerBound &- 1, range.lowerBound, range.upperBound, range.upperBound + 1] {
                    guard let scalar = Unicode.Scalar(unit) else { continue }
                    let isMember = ranges.contains { $0.contains(unit) }
                    #expect(inside.matches(String(scalar)) == isMember, "\(text), \(unit)")
                    #expect(outside.matches(String(scalar)) == !isMember, "\(text), \(unit)")
                }
            }
        }
    }

    private func character(_ unit: UInt16) -> String { String(decoding: [unit], as: UTF16.self) }
    private func isSet(_ unit: UInt16) -> Bool { ["d", "D", "w", "W", "s", "S"].contains(character(unit)) }

    @Test(arguments: [
        ("^hello$", "HeLLo", true), ("^[a-f]+$", "abcDEF", true), ("^[^a]$", "A", false), ("^É$", "é", true),
        ("^é$", "É", true), ("^[à-ý]+$", "ÀÝ", true), ("^σ+$", "σςΣ", true), ("^k$", "\u{212A}", false),
        ("^s$", "\u{17F}", false), ("^i$", "İ", false), ("^ß$", "SS", false), ("^\\w$", "\u{212A}", false),
        ("^[\u{400}-\u{42F}]+$", "жЖ", true), ("^\"abC\"$", "ABc", true), ("^𐐀$", "𐐨", false), ("^Z_@$", "z_`", false),
    ]) func withoutCase(pattern: String, text: String, expected: Bool) throws {
        #expect(try regex(pattern, ignoresCase: true).matches(text) == expected)
    }

    /// An open end needs no copies: any text may follow.
    @Test func openEndsAreCutShort() throws {
        for (pattern, shorter) in [
            ("a{2,5000}", "a{2}"), ("^ba{1,5000}", "^ba"), ("a{1,5000}b$", "ab$"), ("x*a+y*", "a"), ("(a|b)?", ""),
            ("^a(b{1,900}|c{2,800})", "^a(b|c{2})"), ("(ab{0,500})$", "(ab{0,500})$"),
        ] { #expect(try regex(pattern).programSize == regex(shorter).programSize, "\(pattern)") }
    }

    /// No chain of optional copies is long enough for RE2 to take long: its time grows with the square of the length.
    @Test(arguments: [
        "^.{1,33000}$", "^(a{20}){0,3000}$", "^(a|bc){0,20000}$", "^(a{600}){0,100}$", "^[0-9a-z]{0,40000}$",
    ])
    func optionalCopiesAreNested(pattern: String) throws {
        var work = 0
        let translation = RegexTranslation(
            try RegexParser.parse(RegexLiteral(pattern: pattern, ignoresCase: false), work: &work))
        for count in translation.pattern.matches(of: /\{0,(\d+)\}/) { #expect(try #require(Int(count.1)) <= 400) }
        #expect(translation.size <= RegexParser.maxSize)
        #expect(try regex(pattern).programSize <= translation.size + 2000)
    }

    /// Parts before a trimmed end were parsed, and count towards the cost.
    @Test func trimmedPartsCost() throws {
        let many = try regex(String(repeating: "a?", count: 20_000) + "b")
        #expect(many.programSize < 20 && many.cost >= 40_000)
    }

    /// RE2's cache is as large as the pattern needs.
    @Test func cachesAreSmall() throws {
        #expect(try regex("a.{12}[cX]$").cacheBytes < 16 << 10)
        #expect(try regex("^[a-z]+$").cacheBytes < 16 << 10)
        let large = try regex("^(.*a){300}b$")
        #expect(large.cacheBytes < 128 << 10 && large.cost >= large.cacheBytes / 128)
    }

    @Test(arguments: [
        "^[A-Za-z0-9+\\/=]+$", "^data:image\\/(png|jpeg);base64,[A-Za-z0-9+\\/=]+$",
        "^[\\w.%+-]+@[\\w.-]+\\.[A-Za-z]{2,}$",
        "^(https?:\\/\\/)[\\w.-]+(\\/[^ ]*)?$", "<.+>", "^([0-9a-f-]{36},)*$", "(error|warning|fatal)", "^$", "()",
        "a{3,2}",
        "^(19|20)\\d\\d-(0[1-9]|1[012])$", "^[à-ÿĀ-ž ]+$", "^.*$", "^.{1,40}$", "(a|b)*abb",
    ]) func linearOnes(pattern: String) throws {
        let regex = try regex(pattern)
        #expect(regex.isLinear && regex.steps(units: 3_000_000) < 100_000)
    }

    @Test(arguments: ["a.{12}[cX]$", "^(.*a){300}b$", "(a|b)*a(a|b){16}$", "^(a*){300}b$"])
    func ambiguousOnes(pattern: String) throws {
        let regex = try regex(pattern)
        // There are twice as many bytes as units, and all active instructions may consume each of them.
        #expect(!regex.isLinear && regex.steps(units: 20_000) >= 20_000 * 2 * regex.width / 16)
    }

    @Test func widths() throws {
        for (pattern, most) in [
            ("^.{1,5000}$", 20), ("^[a-z]{3}-\\d{4}$", 20), ("^(ab|cd){1,900}$", 60), ("^\\w{1,64}$", 40),
        ] {
            let regex = try regex(pattern)
            #expect(regex.width <= most && regex.width <= regex.programSize, "\(pattern): \(regex.width)")
        }
        // If a part may begin at every position, all of it may be active.
        for pattern in ["a.{50}b$", "^a*.{50}b$", "^(a|bc)*.{50}b$", "^(.{1,50}x)*$"] {
            #expect(try regex(pattern).width >= 100, "\(pattern)")
        }
    }

    @Test func longAndEmptyTexts() throws {
        let all = try regex("^[^x]*$")
        #expect(all.matches(""))
        #expect(all.matches(String(repeating: "é\n😀", count: 100_000)))
        #expect(!all.matches(String(repeating: "é\n😀", count: 100_000) + "x"))
        #expect(try regex("x$").matches(String(repeating: "漢", count: 100_000) + "x"))
        // The bytes of a pair are not those of two halves: U+6162 is no "ab".
        #expect(try !regex("b").matches("\u{6162}") && !regex("a").matches("\u{6162}"))
        #expect(try !regex("\u{6261}").matches("\u{162}\u{6100}"))
    }
}
