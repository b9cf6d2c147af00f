public import LogStore

/// How far a feed has come, as the database keeps it.
public struct FeedProgress: Sendable {
    /// All messages of entries up to this one are done.
    public var seq: Int64
    /// And the first so many of the entry behind it, or of the snapshot's tree.
    public var index: Int64
    /// The entry whose tree is the snapshot that the feed begins with, while its messages are not all done.
    public var snapshotSeq: Int64?
    /// What is done behind that.
    public var done: PlaceRanges
    /// Messages of entries behind this one have been handed to nobody.
    public var handedTo: Int64
    /// How far the log was read.
    public var readTo: LogCursor

    public init(
        seq: Int64, index: Int64 = 0, snapshotSeq: Int64? = nil, done: PlaceRanges = PlaceRanges(),
        handedTo: Int64? = nil, readTo: LogCursor? = nil
    ) {
        self.seq = seq
        self.index = index
        self.snapshotSeq = snapshotSeq
        self.done = done
        self.handedTo = handedTo ?? seq
        self.readTo = readTo ?? LogCursor(seq: seq)
    }

    /// Whether a message is done.
    public func isDone(_ position: FeedPosition) -> Bool {
        if position < first { return true }
        return done.contains(position)
    }

    /// The first place that may not be done.
    var first: FeedPosition {
        FeedPosition(seq: seq + 1, index: index, isSnapshot: snapshotSeq == seq + 1)
    }
}

/// Places of messages that are done although one before them is not: ranges that do not touch, in order. Pure.
///
/// A range stands for all messages of the feed between its ends, whatever they are: so a few numbers say it for thousands.
public struct PlaceRanges: Sendable, Equatable {
    public private(set) var ranges: [ClosedRange<FeedPosition>]

    /// No ranges.
    public init() { ranges = [] }

    /// - Parameter ranges: in order, without a common position.
    /// - Returns: nil where the ranges are out of order, or have positions that no feed reaches.
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

    /// Whether a place is in one of the ranges.
    public func contains(_ position: FeedPosition) -> Bool {
        var low = 0
        var high = ranges.count
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound < position { low = middle + 1 } else { high = middle }
        }
        return low < ranges.count && ranges[low].contains(position)
    }

    // MARK: As bytes

    /// Each range is four numbers: the distance of the seqs, and the index, for its beginning and its end.
    public var bytes: [UInt8] {
        var bytes: [UInt8] = []
        var seq: Int64 = 0
        for range in ranges {
            for end in [range.lowerBound, range.upperBound] {
                // Neither is negative: both initialisers see to that.
                Self.append(UInt64(bitPattern: end.seq &- seq), to: &bytes)
                Self.append(UInt64(bitPattern: end.index) << 1 | (end.isSnapshot ? 1 : 0), to: &bytes)
                seq = end.seq
            }
        }
        return bytes
    }

    /// Reads what `bytes` wrote; nil where it is something else.
    public init?(bytes: [UInt8]) {
        var rest = bytes[...]
        var seq: Int64 = 0
        var ends: [FeedPosition] = []
        while !rest.isEmpty {
            guard let distance = Self.take(&rest), let packed = Self.take(&rest) else { return nil }
            let (sum, isBeyond) = seq.addingReportingOverflow(Int64(truncatingIfNeeded: distance))
            guard !isBeyond, sum >= seq else { return nil }
            seq = sum
            ends.append(FeedPosition(seq: seq, index: Int64(packed >> 1), isSnapshot: packed & 1 == 1))
        }
        guard ends.count % 2 == 0 else { return nil }
        var ranges: [ClosedRange<FeedPosition>] = []
        for index in stride(from: 0, to: ends.count, by: 2) {
            guard ends[index] <= ends[index + 1] else { return nil }
            ranges.append(ends[index]...ends[index + 1])
        }
        self.init(ranges)
    }

    /// Seven bits a byte, the lowest first; all but the last have the highest bit set.
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
