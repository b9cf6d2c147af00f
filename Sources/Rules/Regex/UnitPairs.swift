/// A set of units as pairs of bytes, high byte first, in RE2's syntax.
struct UnitPairs {
    /// High bytes with the low bytes that may follow each of them.
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

    /// About how many instructions the set takes: one for each range of bytes.
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
