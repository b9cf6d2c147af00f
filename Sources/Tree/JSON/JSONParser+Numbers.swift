/// Parsing of numbers.
extension JSONParser {
    /// Parses a number. A 64-bit integer stays exact. All others are doubles, but an integral double within ±2^53 becomes an
    /// integer.
    mutating func number() throws(JSONError) -> Node {
        let start = index
        let isNegative = bytes[index] == UInt8(ascii: "-")
        if isNegative { index += 1 }
        let digitsStart = index
        var mantissa = Mantissa()
        scanDigits(&mantissa)
        let digits = index - digitsStart
        guard digits > 0 else { throw syntax("expected a digit") }
        guard digits == 1 || bytes[digitsStart] != 0x30 else {
            throw error(.syntax, "a number can't begin with 0", at: digitsStart)
        }
        guard let next = peek, next == UInt8(ascii: ".") || next | 0x20 == UInt8(ascii: "e") else {
            // −0 is not an integer, and neither is a number beyond 64 bits.
            if mantissa.isExact, mantissa.value > 0 || !isNegative {
                if let value = Int64(exactly: mantissa.value) { return .int(isNegative ? -value : value) }
                if isNegative, mantissa.value == Int64.min.magnitude { return .int(.min) }
            }
            return try double(from: start)
        }
        var exponent = 0
        if next == UInt8(ascii: ".") {
            index += 1
            let fractionStart = index
            scanDigits(&mantissa)
            guard index > fractionStart else { throw syntax("expected a digit") }
            exponent = fractionStart - index
        }
        if let byte = peek, byte | 0x20 == UInt8(ascii: "e") {
            index += 1
            let isNegative = peek == UInt8(ascii: "-")
            if isNegative || peek == UInt8(ascii: "+") { index += 1 }
            let exponentStart = index
            var power = Mantissa()
            scanDigits(&power)
            guard index > exponentStart else { throw syntax("expected a digit") }
            // A large power needs the slow path. It exceeds any exponent that the digits could compensate.
            let size = power.isExact && power.value < 1000 ? Int(power.value) : 1 << 40
            exponent += isNegative ? -size : size
        }
        // Both factors are exact doubles here, so one rounding gives the nearest double (Clinger's fast path).
        if mantissa.isExact, mantissa.value <= 1 << 53, exponent.magnitude <= 22 {
            let magnitude = Double(mantissa.value)
            let power = Self.powersOfTen[Int(exponent.magnitude)]
            let value = exponent < 0 ? magnitude / power : magnitude * power
            return Node(number: isNegative ? -value : value)
        }
        return try double(from: start)
    }

    /// The digits read so far as one integer, while they fit.
    private struct Mantissa {
        var value: UInt64 = 0
        var isExact = true
    }

    /// The powers of ten that are exact doubles.
    private static let powersOfTen: [Double] = [
        1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
        1e20,
        1e21, 1e22,
    ]

    @inline(__always)
    private mutating func scanDigits(_ mantissa: inout Mantissa) {
        while index < bytes.count, bytes[index] &- 0x30 <= 9 {
            let digit = UInt64(bytes[index] &- 0x30)
            if mantissa.value < 900_000_000_000_000_000 {
                mantissa.value = mantissa.value &* 10 &+ digit
            } else {
                let (product, overflow) = mantissa.value.multipliedReportingOverflow(by: 10)
                let (sum, carry) = product.addingReportingOverflow(digit)
                if overflow || carry { mantissa.isExact = false } else if mantissa.isExact { mantissa.value = sum }
            }
            index += 1
        }
    }

    private func double(from start: Int) throws(JSONError) -> Node {
        let text = String(decoding: bytes[start..<index], as: UTF8.self)
        guard let value = Double(text), value.isFinite else {
            throw error(.value, "the number is out of range", at: start)
        }
        return Node(number: value)
    }
}

extension Node {
    /// Creates a number as the tree stores it: an integral double within ±2^53 becomes an integer, but −0 stays a double.
    public init(number value: Double) {
        // The conversion truncates. Comparing the result needs no rounding function of the C library, which would have to be
        // linked.
        if value.magnitude <= 9_007_199_254_740_992, Double(Int64(value)).bitPattern == value.bitPattern {
            self = .int(Int64(value))
        } else {
            self = .double(value)
        }
    }
}
