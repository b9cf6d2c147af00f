import Feeds
import LogStore

extension FuzzTarget {
    /// The finished positions in a feed's row. The first byte selects the treatment of the input: as these bytes, or as
    /// numbers of ranges that are encoded first.
    static let feedPositions = FuzzTarget(
        name: "feed-places",
        corpus: [
            [0], [0, 5, 0, 0, 4], [0, 5, 1, 0, 5, 1, 0, 0, 2], [0, 0x80, 1, 0, 0x80, 0x80, 1, 0],
            [0] + [UInt8](repeating: 0xFF, count: 8) + [0x7F, 0, 0, 0], [0, 1, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F],
            [1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], [1, 0x80, 0, 1, 0xFF, 2, 0, 0, 1, 9, 9, 9, 9],
        ],
        tokens: [
            [0], [1], [0x7F], [0x80], [0xFF], [0x80, 0x00], [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
            [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], [5, 0, 0, 4], [5, 1, 0, 5],
        ]
    ) { input, summary in
        guard let mode = input.first else { return nil }
        let rest = Array(input.dropFirst())
        if mode % 2 == 1 { return written(rest, &summary) }
        guard let positions = PositionRanges(bytes: rest) else {
            summary.note(1)
            return nil
        }
        summary.noteSize(positions.ranges.count)
        for range in positions.ranges.prefix(3) {
            summary.noteSize(Int(range.lowerBound.seq))
            summary.noteSize(Int(range.upperBound.index))
            summary.note(range.lowerBound.isSnapshot ? 1 : 0)
        }
        guard PositionRanges(bytes: positions.bytes) == positions else {
            return "the written positions are read as other positions"
        }
        guard positions.bytes.count <= rest.count else { return "the written form is longer than the input" }
        return order(positions)
    }.measuring { _ = PositionRanges(bytes: $0) }

    private static func order(_ positions: PositionRanges) -> String? {
        var last: FeedPosition?
        for range in positions.ranges {
            if let last, range.lowerBound <= last { return "ranges out of order" }
            for end in [range.lowerBound, range.upperBound] {
                if end.seq < 0 || end.index < 0 { return "a position before the first position" }
                if !positions.contains(end) { return "the end of a range is not in the range" }
                if FeedPosition(id: end.id(in: "n"), in: "n") != end { return "a position without an id: \(end)" }
            }
            let after = FeedPosition(
                seq: range.upperBound.seq, index: range.upperBound.index + 1, isSnapshot: range.upperBound.isSnapshot)
            if positions.contains(after), !positions.ranges.contains(where: { $0.contains(after) }) {
                return "a position after a range is in the range"
            }
            last = range.upperBound
        }
        return nil
    }

    /// Checks ranges built from the input's bytes, four for each range.
    private static func written(_ bytes: [UInt8], _ summary: inout Summary) -> String? {
        var ranges: [ClosedRange<FeedPosition>] = []
        var seq: Int64 = 0
        for start in stride(from: 0, to: bytes.count - 3, by: 4) {
            // Some ranges are far away.
            let step = Int64(bytes[start] & 0x3F) + 1
            let (sum, isBeyond) = seq.addingReportingOverflow(bytes[start] & 0x80 == 0 ? step : step << 50)
            guard !isBeyond, sum <= Int64.max / 2 else { break }
            let isSnapshot = bytes[start + 1] & 1 == 1
            let lower = FeedPosition(seq: sum, index: Int64(bytes[start + 1]), isSnapshot: isSnapshot)
            let index = lower.index + Int64(bytes[start + 2]) << Int64(bytes[start + 3] & 0x1F)
            ranges.append(lower...FeedPosition(seq: sum, index: index, isSnapshot: isSnapshot))
            seq = sum
        }
        guard let positions = PositionRanges(ranges) else { return "ranges in order are refused" }
        summary.noteSize(ranges.count)
        guard let again = PositionRanges(bytes: positions.bytes) else { return "the written positions can't be read" }
        guard again == positions else { return "the written ranges are read as other ranges" }
        return order(positions)
    }
}
