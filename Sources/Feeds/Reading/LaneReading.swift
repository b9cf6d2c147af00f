import LogStore
import Runtime
import Tree

/// A lane, how far the log has been read for it, and what its trees take of memory.
struct LaneReading {
    var lane: FeedLane
    var follower: LogFollower
    /// Entries that were read and not passed yet.
    var page: ArraySlice<LoggedEntry> = []
    /// A load that was read and not passed yet: its parts have to be read, too.
    var bulk: LoggedEntry?
    var isAtEnd = false
    /// Counts the lane's tree where it is its own; nil where it is the gateway's own one, or shares most of it.
    private(set) var meter: TreeMeter?
    /// How often the gateway's tree had been exchanged when the lane took it; nil where the lane has made its own.
    private var exchanges: Int?
    private var lookedAt: Milliseconds = 0

    /// What an entry has behind it makes older trees keep, at most, but for large values.
    private static let bytesOfEntry = 2_000
    private static let bytesOfRow = 96
    private static let pauseMilliseconds: Milliseconds = 1_000

    /// - Parameters:
    ///   - meter: counts the lane's tree; nil where somebody else does.
    ///   - exchanges: how often the gateway's tree had been exchanged when it was looked at for this one; nil where it was not.
    init(_ lane: FeedLane, _ follower: LogFollower, meter: TreeMeter?, exchanges: Int?) {
        self.lane = lane
        self.follower = follower
        self.meter = meter
        self.exchanges = exchanges
    }

    /// Another lane that goes on from here.
    ///
    /// - Parameter room: makes room for trees of the lane's own.
    func splitting(_ lane: FeedLane, in room: () -> any TreeRoom) -> LaneReading {
        var other = self
        other.lane = lane
        other.isAtEnd = false
        if meter != nil { other.meter = TreeMeter(room(), sharesBase: true) }
        return other
    }

    /// Takes the gateway's own tree of the same entry.
    mutating func share(_ root: Node, exchanges: Int?) {
        lane.share(root)
        isShared(exchanges)
    }

    /// The lane's tree is the gateway's own one of the same entry now.
    mutating func isShared(_ exchanges: Int?) {
        meter = nil
        self.exchanges = exchanges
    }

    /// The lane's tree was made elsewhere, and is counted there.
    mutating func isMade(_ meter: TreeMeter) {
        self.meter = meter
        exchanges = nil
    }

    /// Changes were done to the lane's own tree.
    mutating func grew(by changes: [Change]) { meter?.grew(by: changes) }

    /// Puts the lane's own trees into pages where there is too little room for them.
    mutating func settle() {
        guard var packer = meter?.packer(for: lane.root) else { return }
        lane.exchange { packer.pack($0) }
        meter?.count(bytes: lane.heapBytes)
    }

    /// Nobody takes messages: the lane's trees grow old, and the gateway's own one shares ever less with them.
    ///
    /// - Parameters:
    ///   - standing: how far the gateway's own one has come; nil where that isn't known.
    ///   - now: monotonic milliseconds.
    ///   - room: makes room for trees of the lane's own.
    mutating func grewOld(_ standing: TreeStanding?, now: Milliseconds, in room: () -> any TreeRoom) {
        guard now - lookedAt >= Self.pauseMilliseconds else { return }
        lookedAt = now
        let newest = lane.newest
        var kept = newest.root.rowCount * Self.bytesOfRow
        if let standing, standing.exchanges == exchanges {
            kept = min(kept, Int(clamping: max(0, standing.seq - newest.seq)) * Self.bytesOfEntry)
        }
        if lane.isWide, !lane.root.isIdentical(to: newest.root) { kept += lane.root.rowCount * Self.bytesOfRow }
        var meter = meter ?? TreeMeter(room(), sharesBase: true)
        meter.keeps(bytes: kept)
        self.meter = meter
        settle()
    }
}
