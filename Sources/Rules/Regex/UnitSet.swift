/// A set of UTF-16 code units, as ranges in ascending order that neither overlap nor touch.
struct UnitSet: Equatable {
    private(set) var ranges: [ClosedRange<UInt16>] = []

    static let all = UnitSet([0...0xFFFF])
    /// `\d`.
    static let digits = UnitSet([0x30...0x39])
    /// `\w`.
    static let word = UnitSet([0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A])
    /// `\s`: the white space of XML, which is tab, line feed, carriage return and space.
    static let space = UnitSet([0x09...0x0A, 0x0D...0x0D, 0x20...0x20])

    init(_ unsorted: [ClosedRange<UInt16>]) {
        for range in unsorted.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = ranges.last, Int(range.lowerBound) <= Int(last.upperBound) + 1 {
                ranges[ranges.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
            } else {
                ranges.append(range)
            }
        }
    }

    init(_ unit: UInt16) { ranges = [unit...unit] }

    var isEmpty: Bool { ranges.isEmpty }

    func union(_ other: UnitSet) -> UnitSet { UnitSet(ranges + other.ranges) }

    var complement: UnitSet {
        var gaps: [ClosedRange<UInt16>] = []
        var next = 0
        for range in ranges {
            if Int(range.lowerBound) > next { gaps.append(UInt16(next)...(range.lowerBound - 1)) }
            next = Int(range.upperBound) + 1
        }
        if next <= 0xFFFF { gaps.append(UInt16(next)...0xFFFF) }
        return UnitSet(gaps)
    }

    /// Returns the set with the other cases of its letters. Adds the number of examined pairs of letters to `work`.
    func ignoringCase(_ work: inout Int) -> UnitSet {
        guard let last = ranges.last else { return self }
        var added: [ClosedRange<UInt16>] = []
        if last.upperBound < 0x80 {
            for range in ranges {
                for unit in range where UnitSet.isLetter(unit) { added.append((unit ^ 0x20)...(unit ^ 0x20)) }
            }
        } else {
            for range in ranges {
                let pairs = CaseOrbits.shared.pairs(of: range)
                work += pairs.count
                for pair in pairs where !contains(pair.other) { added.append(pair.other...pair.other) }
            }
        }
        return added.isEmpty ? self : UnitSet(ranges + added)
    }

    private static func isLetter(_ unit: UInt16) -> Bool { (unit | 0x20) &- 0x61 < 26 }

    func contains(_ unit: UInt16) -> Bool {
        var low = 0
        var high = ranges.count
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound < unit { low = middle + 1 } else { high = middle }
        }
        return low < ranges.count && ranges[low].lowerBound <= unit
    }
}

/// The letters of the Basic Multilingual Plane that are equal under the flag `i`: those whose upper case is the same single
/// unit. As in JavaScript, no other letter is equal to an ASCII letter.
private struct CaseOrbits: Sendable {
    /// Each unit that equals other units, paired with each of them, in ascending order of the units.
    private let pairs: [(unit: UInt16, other: UInt16)]

    static let shared = CaseOrbits()

    private init() {
        var orbits: [UInt16: [UInt16]] = [:]
        for unit in UInt16.min...UInt16.max {
            guard let upper = Self.upper(unit) else { continue }
            orbits[upper, default: [upper]].append(unit)
        }
        var pairs: [(unit: UInt16, other: UInt16)] = []
        for orbit in orbits.values {
            for unit in orbit { for other in orbit where other != unit { pairs.append((unit, other)) } }
        }
        self.pairs = pairs.sorted { ($0.unit, $0.other) < ($1.unit, $1.other) }
    }

    func pairs(of range: ClosedRange<UInt16>) -> ArraySlice<(unit: UInt16, other: UInt16)> {
        let begin = index { $0 >= range.lowerBound }
        // Most ranges are short.
        var end = begin
        while end < pairs.count, pairs[end].unit <= range.upperBound { end += 1 }
        return pairs[begin..<end]
    }

    /// Returns the index of the first pair whose unit fulfils a condition. All later units must fulfil it, too.
    private func index(_ holds: (UInt16) -> Bool) -> Int {
        var low = 0
        var high = pairs.count
        while low < high {
            let middle = (low + high) / 2
            if holds(pairs[middle].unit) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    /// Returns the upper case of a unit, or nil if that is the unit itself, takes several units, or would be an ASCII letter.
    private static func upper(_ unit: UInt16) -> UInt16? {
        guard let scalar = Unicode.Scalar(unit), scalar.properties.changesWhenUppercased else { return nil }
        let mapping = scalar.properties.uppercaseMapping.utf16
        guard let upper = mapping.first, mapping.count == 1, upper != unit, unit < 0x80 || upper >= 0x80 else {
            return nil
        }
        return upper
    }
}

/// A set of units as pairs of bytes, high byte first, in RE2's syntax.
struct UnitPairs {
    /// High bytes, with the low bytes that may follow each of them.
    private var groups: [(high: [ClosedRange<UInt8>], low: [ClosedRange<UInt8>])] = []

    init(_ units: UnitSet) {
        var full: [ClosedRange<UInt8>] = []
        var partial: [(high: UInt8, low: [ClosedRange<UInt8>])] = []
        func add(_ high: UInt8, _ low: ClosedRange<UInt8>) {
            if let last = partial.last, last.high == high {
                partial[partial.count - 1].low.append(low)
            } else {
                partial.append((high, [low]))
            }
        }
        for range in units.ranges {
            let (first, begin) = Self.bytes(range.lowerBound)
            let (last, end) = Self.bytes(range.upperBound)
            if first == last, begin != 0 || end != 0xFF {
                add(first, begin...end)
                continue
            }
            if begin != 0 { add(first, begin...0xFF) }
            let middle = (begin == 0 ? Int(first) : Int(first) + 1)...(end == 0xFF ? Int(last) + 1 : Int(last))
            if middle.lowerBound < middle.upperBound {
                full.append(UInt8(middle.lowerBound)...UInt8(middle.upperBound - 1))
            }
            if end != 0xFF { add(last, 0...end) }
        }
        if !full.isEmpty { groups.append((full, [0...0xFF])) }
        for (high, low) in partial {
            if let index = groups.firstIndex(where: { $0.low == low }) {
                groups[index].high.append(high...high)
            } else {
                groups.append(([high...high], low))
            }
        }
    }

    private static func bytes(_ unit: UInt16) -> (high: UInt8, low: UInt8) {
        (UInt8(truncatingIfNeeded: unit >> 8), UInt8(truncatingIfNeeded: unit))
    }

    /// The approximate number of instructions of the set: one for each range of bytes.
    var size: Int { groups.reduce(0) { $0 + $1.high.count + $1.low.count } }

    var text: String {
        groups.map { Self.byteClass($0.high) + Self.byteClass($0.low) }.joined(separator: "|")
    }

    /// Whether the text needs a group where something follows or precedes it.
    var isChoice: Bool { groups.count > 1 }

    private static func byteClass(_ ranges: [ClosedRange<UInt8>]) -> String {
        if ranges.count == 1, ranges[0].count == 1 { return code(ranges[0].lowerBound) }
        return "["
            + ranges.map { $0.count == 1 ? code($0.lowerBound) : code($0.lowerBound) + "-" + code($0.upperBound) }
            .joined() + "]"
    }

    private static func code(_ byte: UInt8) -> String {
        let digits = String(byte, radix: 16)
        return (byte < 16 ? "\\x0" : "\\x") + digits
    }
}
