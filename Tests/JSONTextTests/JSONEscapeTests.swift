import JSONText
import Testing

@Suite struct JSONEscapeTests {
    /// Reads one escape; returns the scalar, and the offset of its end.
    private func read(_ text: String) throws -> (scalar: Unicode.Scalar, end: Int) {
        var index = 0
        let scalar = try Array(text.utf8).withUnsafeBufferPointer { try JSONEscape.scalar(in: $0, at: &index) }
        return (scalar, index)
    }

    /// Every scalar that is not a surrogate is read back from its JSON escape: all of the first plane, and a sample of
    /// the others, with digits in either case.
    @Test(arguments: [false, true])
    func everyScalarComesBack(isUppercase: Bool) throws {
        let codes = Array(UInt32(0)..<0x1_0000) + stride(from: UInt32(0x1_0000), through: 0x10_FFFF, by: 0x3F1)
        for code in codes {
            guard let scalar = Unicode.Scalar(code) else { continue }
            let units = Array(String(scalar).utf16)
            let text = units.map { unit in
                let digits = String(unit, radix: 16, uppercase: isUppercase)
                return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            }.joined()
            let (found, end) = try read(text + "tail")
            guard found == scalar, end == text.utf8.count else {
                Issue.record("\(text) gave \(found) up to \(end)")
                return
            }
        }
    }

    /// An unpaired surrogate is refused with any text after it.
    @Test func everyHalfIsRefused() {
        for code in UInt32(0xD800)...0xDFFF {
            let text = "\\u" + String(code, radix: 16)
            let isHigh = code < 0xDC00
            for tail in ["", "x", "\\", "\\n", "\\u0041", isHigh ? "\\ud800" : "\\udc00"] {
                do {
                    _ = try read(text + tail)
                    Issue.record("\(text + tail) was accepted")
                } catch let fault as JSONFault {
                    if fault.kind != .halfOfPair { Issue.record("\(text + tail): \(fault)") }
                } catch {
                    Issue.record(error)
                }
            }
        }
    }

    /// Only nine bytes after a backslash make or begin an escape.
    @Test func noOtherEscapes() {
        let known: Set<UInt8> = Set("\"\\/bfnrtu".utf8)
        for byte in UInt8.min...UInt8.max {
            var index = 0
            let text: [UInt8] = [UInt8(ascii: "\\"), byte, 0x30, 0x30, 0x34, 0x31]
            do {
                _ = try text.withUnsafeBufferPointer { try JSONEscape.scalar(in: $0, at: &index) }
                #expect(known.contains(byte))
                #expect(index == (byte == UInt8(ascii: "u") ? 6 : 2))
            } catch {
                #expect(!known.contains(byte))
                #expect(error as? JSONFault == JSONFault(.unknownEscape, at: 1))
            }
        }
    }

    /// Reading stops at the first invalid digit: a parser's error position depends on `index`.
    @Test(arguments: [
        ("\\u", 2), ("\\u1", 3), ("\\u12", 4), ("\\u123", 5), ("\\ug", 2), ("\\u12 4", 4), ("\\ud83d\\u1", 9),
    ])
    func theIndexStopsAtTheBadDigit(text: String, expected: Int) {
        var index = 0
        let bytes = Array(text.utf8)
        #expect(throws: JSONFault.self) {
            try bytes.withUnsafeBufferPointer { try JSONEscape.scalar(in: $0, at: &index) }
        }
        #expect(index == expected)
    }

    @Test func hexDigitsInEitherCase() {
        for byte in UInt8.min...UInt8.max {
            let expected = byte < 0x80 ? Character(Unicode.Scalar(byte)).hexDigitValue : nil
            #expect(JSONEscape.hexDigit(byte).map(Int.init) == expected)
        }
    }
}
