import JSONText
import Testing

/// Checks the strict tokens of JSON text, with one table for each.
@Suite struct JSONScannerTests {
    /// Runs `body` on the text.
    private func scan<Result>(_ text: String, _ body: (inout JSONScanner) throws -> Result) rethrows -> Result {
        try Array(text.utf8).withUnsafeBufferPointer { buffer in
            var scanner = JSONScanner(buffer)
            return try body(&scanner)
        }
    }

    /// Returns the fault of `body` with its position, or nil.
    private func fault(_ text: String, _ body: (inout JSONScanner) throws -> Void) -> JSONFault? {
        do {
            try scan(text, body)
            return nil
        } catch {
            return error as? JSONFault
        }
    }

    // MARK: White space and words

    @Test(arguments: [("", 0), (" ", 1), ("\t\n\r x", 4), ("x ", 0), ("\u{B} ", 0), ("\u{A0}", 0), ("\u{FEFF} ", 0)])
    func whiteSpaceIsFourCharacters(text: String, end: Int) {
        let found = scan(text) { scanner in
            scanner.skipSpace()
            return scanner.index
        }
        #expect(found == end)
    }

    @Test(arguments: [("true", true), ("trueish", true), ("tru", false), ("True", false), ("", false), ("truE", false)])
    func aWordIsTakenWholeOrNotAtAll(text: String, isTaken: Bool) {
        scan(text) { scanner in
            let taken = scanner.take("true")
            #expect(taken == isTaken)
            #expect(scanner.index == (isTaken ? 4 : 0))
        }
    }

    @Test func aByteIsTakenOrNot() {
        scan("[]") { scanner in
            let isClosed = scanner.take(UInt8(ascii: "]"))
            #expect(!isClosed)
            let isOpened = scanner.take(UInt8(ascii: "["))
            #expect(isOpened)
            #expect(!scanner.isAtEnd)
            let isClosedNow = scanner.take(UInt8(ascii: "]"))
            #expect(isClosedNow)
            #expect(scanner.isAtEnd)
            #expect(scanner.peek == nil)
            let isClosedAgain = scanner.take(UInt8(ascii: "]"))
            #expect(!isClosedAgain)
        }
    }

    // MARK: Numbers

    @Test(arguments: [
        ("0", 1, true), ("-0", 2, true), ("7", 1, true), ("-12", 3, true), ("1234567890123456789012", 22, true),
        ("0.5", 3, false), ("-0.50", 5, false), ("1e5", 3, false), ("1E+05", 5, false), ("2.25e-3", 7, false),
        ("0e0", 3, false), ("1,2", 1, true), ("1]", 1, true), ("1 2", 1, true), ("1x", 1, true), ("10.0.0", 4, false),
        ("1-1", 1, true),
    ])
    func numbersEndWhereTheirGrammarDoes(text: String, end: Int, isWhole: Bool) throws {
        try scan(text) { scanner in
            let number = try scanner.number()
            #expect(number.range == 0..<end)
            #expect(number.isWhole == isWhole)
            #expect(scanner.index == end)
        }
    }

    @Test(arguments: [
        ("", JSONFault(.noFirstDigit, at: 0)), ("-", JSONFault(.noFirstDigit, at: 1)),
        ("+1", JSONFault(.noFirstDigit, at: 0)),
        (".5", JSONFault(.noFirstDigit, at: 0)), ("-.5", JSONFault(.noFirstDigit, at: 1)),
        ("x", JSONFault(.noFirstDigit, at: 0)),
        ("01", JSONFault(.leadingZero, at: 2)), ("-00", JSONFault(.leadingZero, at: 3)),
        ("007.5", JSONFault(.leadingZero, at: 3)),
        ("1.", JSONFault(.noDigit, at: 2)), ("1.e3", JSONFault(.noDigit, at: 2)), ("1e", JSONFault(.noDigit, at: 2)),
        ("1e+", JSONFault(.noDigit, at: 3)), ("1E-x", JSONFault(.noDigit, at: 3)),
        ("1e+-2", JSONFault(.noDigit, at: 3)),
        ("Infinity", JSONFault(.noFirstDigit, at: 0)), ("-NaN", JSONFault(.noFirstDigit, at: 1)),
    ])
    func badNumbersSayWhere(text: String, expected: JSONFault) {
        let found = fault(text) { scanner in _ = try scanner.number() }
        #expect(found == expected)
    }

    // MARK: Strings

    @Test(arguments: [
        (#""""#, ""), (#""a""#, "a"), (#""a b/c""#, "a b/c"), (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"),
        (#""\u0041\u00e9\u00E9""#, "Aéé"), (#""\ud83d\ude00""#, "😀"), (#""\uD83D\uDE00x""#, "😀x"), (#""\u0000""#, "\0"),
        (#""😀é""#, "😀é"), (#""\uFFFF\uE000""#, "\u{FFFF}\u{E000}"), (#""12345678\n12345678""#, "12345678\n12345678"),
        ("\"\u{7F}\u{80}\"", "\u{7F}\u{80}"), (#""\\u0041""#, "\\u0041"), (#""\uDBFF\uDFFF""#, "\u{10FFFF}"),
        (#""\uD800\uDC00""#, "\u{10000}"),
    ])
    func stringsLoseTheirEscapes(text: String, expected: String) throws {
        try scan(text + " ,") { scanner in
            let string = try scanner.string()
            #expect(Array(string.utf8) == Array(expected.utf8))
            #expect(scanner.index == text.utf8.count)
        }
        scan(text + " ,") { scanner in
            let isTaken = scanner.skipString()
            #expect(isTaken)
            #expect(scanner.index == text.utf8.count)
        }
    }

    @Test(arguments: [
        (#"""#, JSONFault(.openString, at: 1)), (#""abc"#, JSONFault(.openString, at: 4)),
        (#""\"#, JSONFault(.openString, at: 2)),
        (#""a\""#, JSONFault(.openString, at: 4)), (#""\n"#, JSONFault(.openString, at: 3)),
        ("\"a\nb\"", JSONFault(.controlCharacter, at: 2)), ("\"\0\"", JSONFault(.controlCharacter, at: 1)),
        ("\"\\n\u{1F}\"", JSONFault(.controlCharacter, at: 3)), (#""\x41""#, JSONFault(.unknownEscape, at: 2)),
        (#""ab\'""#, JSONFault(.unknownEscape, at: 4)), (#""\U0041""#, JSONFault(.unknownEscape, at: 2)),
        (#""\é""#, JSONFault(.unknownEscape, at: 2)), (#""\u""#, JSONFault(.badHexDigits, at: 3)),
        (#""\u12""#, JSONFault(.badHexDigits, at: 3)), (#""\u123"#, JSONFault(.badHexDigits, at: 3)),
        (#""\u12g4""#, JSONFault(.badHexDigits, at: 3)), (#""\u+123""#, JSONFault(.badHexDigits, at: 3)),
        (#""\ud83d""#, JSONFault(.halfOfPair, at: 7)), (#""\ud83dx""#, JSONFault(.halfOfPair, at: 7)),
        (#""\ud83d\n""#, JSONFault(.halfOfPair, at: 7)), (#""\ude00""#, JSONFault(.halfOfPair, at: 7)),
        (#""\ud83d\u0041""#, JSONFault(.halfOfPair, at: 13)), (#""\ud83d\ud83d""#, JSONFault(.halfOfPair, at: 13)),
        (#""\ud83d\u00""#, JSONFault(.badHexDigits, at: 9)), (#""\ude00\ud83d""#, JSONFault(.halfOfPair, at: 7)),
    ])
    func badStringsSayWhere(text: String, expected: JSONFault) {
        let found = fault(text) { scanner in _ = try scanner.string() }
        #expect(found == expected)
    }

    /// Skipping refuses the same strings as reading, except for unpaired surrogates.
    @Test(arguments: [
        (#"""#, false), (#""abc"#, false), (#""\"#, false), ("\"a\nb\"", false), (#""\x""#, false), (#""\u12""#, false),
        (#""\u12g4""#, false), (#""\ud83d""#, true), (#""\ude00\ud83d""#, true), (#""\ud83dx""#, true),
    ])
    func skippingAsksForNoPairs(text: String, isTaken: Bool) {
        let found = scan(text) { scanner in scanner.skipString() }
        #expect(found == isTaken)
    }

    /// A quote, backslash or control character is found at any offset of the eight bytes that are scanned together.
    @Test(arguments: 0..<20)
    func theEndIsFoundAtEveryOffset(length: Int) throws {
        let plain = String(repeating: "é", count: length / 2) + String(repeating: "x", count: length % 2)
        try scan("\"\(plain)\"rest") { scanner in
            let found = try scanner.string()
            #expect(found == plain)
            #expect(scanner.peek == UInt8(ascii: "r"))
        }
        let escaped = try scan("\"\(plain)\\u0041\(plain)\"") { scanner in try scanner.string() }
        #expect(escaped == "\(plain)A\(plain)")
        let control = fault("\"\(plain)\u{1}") { scanner in _ = try scanner.string() }
        #expect(control == JSONFault(.controlCharacter, at: 1 + plain.utf8.count))
        let open = fault("\"\(plain)") { scanner in _ = try scanner.string() }
        #expect(open == JSONFault(.openString, at: 1 + plain.utf8.count))
    }

    // MARK: Objects and arrays

    @Test(arguments: ["{}", "{ }", "{\n\t}"])
    func anEmptyObjectIsLeftAtOnce(text: String) {
        scan(text) { scanner in
            let holdsSomething = scanner.enter(closing: UInt8(ascii: "}"))
            #expect(!holdsSomething)
            #expect(scanner.isAtEnd)
        }
    }

    @Test func membersFollowOneAnother() throws {
        var found: [String] = []
        let rest = try scan(#"{ "a" : 1 , "b":2}x"#) { scanner in
            var hasNext = scanner.enter(closing: UInt8(ascii: "}"))
            while hasNext {
                found.append(try scanner.name())
                try scanner.colon()
                scanner.skipSpace()
                found.append(String(decoding: scanner.bytes[try scanner.number().range], as: UTF8.self))
                hasNext = try scanner.hasNext(closing: UInt8(ascii: "}"))
            }
            return scanner.peek
        }
        #expect(found == ["a", "1", "b", "2"])
        #expect(rest == UInt8(ascii: "x"))
    }

    @Test(arguments: [
        ("", JSONFault(.noName, at: 0)), (" 1", JSONFault(.noName, at: 1)), ("a:", JSONFault(.noName, at: 0)),
        (" }", JSONFault(.noName, at: 1)), ("'a'", JSONFault(.noName, at: 0)), (#""a"#, JSONFault(.openString, at: 2)),
    ])
    func aNameIsAString(text: String, expected: JSONFault) {
        let found = fault(text) { scanner in _ = try scanner.name() }
        #expect(found == expected)
    }

    @Test(arguments: [("", 0), (" ", 1), ("=", 0), (" ,", 1)])
    func aColonFollows(text: String, offset: Int) {
        let found = fault(text) { scanner in try scanner.colon() }
        #expect(found == JSONFault(.noColon, at: offset))
    }

    @Test(arguments: [("", 0), (" ", 1), ("}", 0), (" ;", 1), ("1", 0)])
    func aSeparatorFollows(text: String, offset: Int) {
        let found = fault(text) { scanner in _ = try scanner.hasNext(closing: UInt8(ascii: "]")) }
        #expect(found == JSONFault(.noSeparator, at: offset))
    }
}
