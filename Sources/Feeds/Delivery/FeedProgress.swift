public import LogStore

/// The progress of a feed, as the database stores it.
public struct FeedProgress: Sendable {
    /// The entry up to which all messages are done.
    public var seq: Int64
    /// The number of done messages at the start of the next entry, or of the snapshot's tree.
    public var index: Int64
    /// The entry of the snapshot with which the feed begins, until all its messages are done.
    public var snapshotSeq: Int64?
    /// The done positions after those.
    public var done: PositionRanges
    /// The last entry whose messages may have been delivered. No message of a later entry has been delivered.
    public var handedTo: Int64
    /// The position up to which the log was read.
    public var readTo: LogPosition

    public init(
        seq: Int64, index: Int64 = 0, snapshotSeq: Int64? = nil, done: PositionRanges = PositionRanges(),
        handedTo: Int64? = nil, readTo: LogPosition? = nil
    ) {
        self.seq = seq
        self.index = index
        self.snapshotSeq = snapshotSeq
        self.done = done
        self.handedTo = handedTo ?? seq
        self.readTo = readTo ?? LogPosition(seq: seq)
    }

    /// Returns whether a message is done.
    public func isDone(_ position: FeedPosition) -> Bool {
        if position < first { return true }
        return done.contains(position)
    }

    /// The first position that may not be done.
    var first: FeedPosition {
        FeedPosition(seq: seq + 1, index: index, isSnapshot: snapshotSeq == seq + 1)
    }
}

/// Positions of messages that are done although an earlier message is not: sorted, disjoint ranges. Pure.
///
/// A range stands for all messages of the feed between its ends, so that a few numbers can represent thousands of messages.
public struct PositionRanges: Sendable, Equatable {
    public private(set) var ranges: [ClosedRange<FeedPosition>]

    /// Creates an empty set of ranges.
    public init() { ranges = [] }

    /// - Parameter ranges: Sorted ranges without a common position.
    /// - Returns: Nil if the ranges are out of order or contain positions that no feed reaches.
    public init?(_ ranges: [ClosedRange<FeedPosition>]) {
        var last: FeedPosition?
        for range in ranges {
            guard range.lowerBound.isReachable, range.upperBound.isReachable,
                last.map({ $0 < range.lowerBound }) ?? true
            else { return nil }
            last = range.upperBound
        }
        self.ranges = ranges
    }

    /// Returns whether one of the ranges contains a position.
    public func contains(_ position: FeedPosition) -> Bool {
        var low = 0
        var high = ranges.count
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound < position { low = middle + 1 } else { high = middle }
        }
        return low < ranges.count && ranges[low].contains(position)
    }

    // MARK: Encoding

    /// The encoded ranges. Each range is four numbers: for its first and its last position, the difference to the
    /// previous seq, and the index.
    public var bytes: [UInt8] {
        var bytes: [UInt8] = []
        var seq: Int64 = 0
        for range in ranges {
            for end in [range.lowerBound, range.upperBound] {
                // Neither number is negative: both initializers check this.
                Self.append(UInt64(bitPattern: end.seq &- seq), to: &bytes)
                Self.append(UInt64(bitPattern: end.index) << 1 | (end.isSnapshot ? 1 : 0), to: &bytes)
                seq = end.seq
            }
        }
        return bytes
    }

    /// Decodes the format of `bytes`. Returns nil for any other bytes.
    public init?(bytes: [UInt8]) {
        var rest = bytes[...]
        var seq: Int64 = 0
        var ends: [FeedPosition] = []
        while !rest.isEmpty {
            guard let distance = Self.take(&rest), let encoded = Self.take(&rest) else { return nil }
            let (sum, isBeyond) = seq.addingReportingOverflow(Int64(truncatingIfNeeded: distance))
            guard !isBeyond, sum >= seq else { return nil }
            seq = sum
            ends.append(FeedPosition(seq: seq, index: Int64(encoded >> 1), isSnapshot: encoded & 1 == 1))
        }
        guard ends.count % 2 == 0 else { return nil }
        var ranges: [ClosedRange<FeedPosition>] = []
        for index in stride(from: 0, to: ends.count, by: 2) {
            guard ends[index] <= ends[index + 1] else { return nil }
            ranges.append(ends[index]...ends[index + 1])
        }
        self.init(ranges)
    }

    /// Appends a number with seven bits in each byte, the lowest first. All bytes except the last have the highest bit set.
    private static func append(_ number: UInt64, to bytes: inout [UInt8]) {
        var number = number
        while number >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: number) | 0x80)
            number >>= 7
        }
        bytes.append(UInt8(number))
    }

    private static func take(_ bytes: inout ArraySlice<UInt8>) -> UInt64? {
        var number: UInt64 = 0
        var shift: UInt64 = 0
        while let byte = bytes.popFirst() {
            guard shift < 63 else { return nil }
            number |= UInt64(byte & 0x7F) << shift
            if byte & 0x80 == 0 { return number }
            shift += 7
        }
        return nil
    }
}
