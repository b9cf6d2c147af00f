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

    /// More units than are looked at one by one.
    var isWide: Bool { ranges.reduce(0) { $0 + $1.count } > 128 }

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

    /// The set with the other cases of its letters.
    var ignoringCase: UnitSet {
        guard let last = ranges.last else { return self }
        var added: [ClosedRange<UInt16>] = []
        if last.upperBound < 0x80 {
            for range in ranges {
                for unit in range where UnitSet.isLetter(unit) { added.append((unit ^ 0x20)...(unit ^ 0x20)) }
            }
        } else if !isWide {
            for range in ranges {
                for unit in range { added += (CaseOrbits.shared.others[unit] ?? []).map { $0...$0 } }
            }
        } else {
            for (unit, others) in CaseOrbits.shared.others where contains(unit) {
                added += others.map { $0...$0 }
            }
        }
        return UnitSet(ranges + added)
    }

    private static func isLetter(_ unit: UInt16) -> Bool { (unit | 0x20) &- 0x61 < 26 }

    private func contains(_ unit: UInt16) -> Bool {
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
    /// The equal units of each unit that has any.
    let others: [UInt16: [UInt16]]

    static let shared = CaseOrbits()

    private init() {
        var orbits: [UInt16: [UInt16]] = [:]
        for unit in UInt16.min...UInt16.max {
            guard let upper = Self.upper(unit) else { continue }
            orbits[upper, default: [upper]].append(unit)
        }
        var others: [UInt16: [UInt16]] = [:]
        for orbit in orbits.values {
            for unit in orbit { others[unit] = orbit.filter { $0 != unit } }
        }
        self.others = others
    }

    /// The upper case of a unit, or nil if that is the unit itself, takes several units, or would be an ASCII letter.
    private static func upper(_ unit: UInt16) -> UInt16? {
        guard let scalar = Unicode.Scalar(unit), scalar.properties.changesWhenUppercased else { return nil }
        let mapping = scalar.properties.uppercaseMapping.utf16
        guard let upper = mapping.first, mapping.count == 1, upper != unit, unit < 0x80 || upper >= 0x80 else {
            return nil
        }
        return upper
    }
}
