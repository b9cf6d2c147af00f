import LogStore
import Runtime
import Tree

/// Reads a namespace's log for the feeds that are worked here. Feeds that have come to the same entry are read together, in a lane; one whose
/// messages nobody takes gets a lane of its own, so that the others don't wait for it.
///
/// Belongs to the thread that works the namespace at the time.
///
/// Each lane has a `Reading`: the lane, its position in the log, and the entries that were read and not passed yet.
///
///     the gateway's own trees ── steps ──┐
///     (TreeSource)                       ├──► FeedLane.pass ──► found: messages of each feed, to the dispatcher
///     log ── LogFollower ── page, bulk ──┘
///
/// `step` gives each lane one turn:
///
/// 1. A lane in the middle of an entry looks at the next records of the entry, and its turn ends.
/// 2. Feeds without room leave for a lane of their own. If no feed of the lane has room, the turn ends.
/// 3. If the lane has entries, it passes them: a load (`bulk`), whose parts are read now, or the rest of the page.
/// 4. Otherwise the lane passes the entries that the gateway's own trees have been through, or reads the next page of the log,
///    and passes that. The turn ends early when a feed has many messages.
///
/// Then the reader joins lanes at the same entry, counts the memory of the lanes' trees, and makes the trees of resting lanes
/// again whose feeds have room. If the log does not have the entries that a lane needs, or the database has lost entries, the
/// reader has the lane's feeds begin again (`restart`).
final class NamespaceReader {
    struct Reading {
        var lane: FeedLane
        var follower: LogFollower
        /// Entries that were read and not passed yet.
        var page: ArraySlice<LoggedEntry> = []
        /// A load that was read and not passed yet: its parts have to be read, too.
        var bulk: LoggedEntry?
        var isAtEnd = false
        /// When the lane took a step last, in monotonic milliseconds.
        var usedAt = Clock.monotonicMilliseconds
        /// Before then the lane keeps its tree, in monotonic milliseconds.
        var keptUntil: Milliseconds = 0
    }

    let core: FeedCore
    let namespaceID: Int64
    private let found: ([LaneFinding]) -> Void
    let restart: (Set<FeedClaim>, String) -> Void
    let keep: (TreeVersion) -> Void
    private let wake: @Sendable () -> Void
    /// The newest tree that is kept whole, so that who takes over need not make it from the whole log; nil where that is not known.
    var keptSeq: Int64?
    var readings: [Reading] = []
    /// Lanes without trees, as memory is short and their feeds have no room.
    var resting: [RestingLane] = []
    /// What the lanes' trees take of memory.
    var laneTrees = LaneTrees()
    private(set) var name = ""
    private var isWatched = false
    /// When the lanes' trees were exchanged for the gateway's own last.
    var sharedAt: Milliseconds = 0
    /// When the log was read last, not only what the gateway knows of it.
    private var readAt: Milliseconds = 0

    /// - Parameters:
    ///   - found: told of messages, in order.
    ///   - restart: told of feeds that have to begin anew, and why.
    ///   - keep: given a tree that should be kept.
    ///   - wake: called when there are new entries.
    init(
        _ core: FeedCore, _ namespaceID: Int64, found: @escaping ([LaneFinding]) -> Void,
        restart: @escaping (Set<FeedClaim>, String) -> Void, keep: @escaping (TreeVersion) -> Void,
        wake: @escaping @Sendable () -> Void
    ) {
        self.core = core
        self.namespaceID = namespaceID
        self.found = found
        self.restart = restart
        self.keep = keep
        self.wake = wake
    }

    // MARK: Feeds come and go

    /// Makes the tree at the place where a feed begins, and reads it from there. False, and nothing is done, while the gateway reads the
    /// namespace for itself: it is woken when that has ended.
    ///
    /// - Parameter base: a tree of before that was made on the same connection just now, if one was; then the one that was made here.
    func add(_ start: FeedStart, on connection: LogConnection, from base: inout TreeVersion?) throws -> Bool {
        name = start.name.namespace
        if !isWatched {
            core.trees.watch(name, namespaceID, wake)
            isWatched = true
        }
        guard !core.trees.isComing(namespaceID) else { return false }
        let root = try tree(at: start.wantedSeq, on: connection, from: base)
        base = TreeVersion(seq: start.wantedSeq, root: root)
        let cursor = LogCursor(seq: start.wantedSeq)
        let lane: FeedLane
        if start.progress.snapshotSeq != nil {
            let time = try cursor.seq == 0 ? nil : connection.entry(namespaceID, cursor.seq)?.entry.committedAt
            lane = FeedLane(
                start.feed, snapshot: root, at: cursor, from: start.progress.index,
                time: time ?? Clock.unixMilliseconds)
        } else {
            lane = FeedLane([start.feed], root: root, at: cursor)
        }
        if keptSeq == nil { keptSeq = try connection.snapshots(namespaceID).last?.seq ?? 0 }
        // Last, as nothing may fail after it: a start that fails is repeated, and the same messages would be found by two lanes.
        readings.append(Reading(lane: lane, follower: follower(at: cursor)))
        laneTrees.hurry()
        return true
    }

    func remove(_ claim: FeedClaim) {
        for index in readings.indices { readings[index].lane.remove(claim) }
        readings.removeAll { $0.lane.feeds.isEmpty }
        for index in resting.indices { resting[index].remove(claim) }
        resting.removeAll { $0.feeds.isEmpty }
        guard readings.isEmpty, resting.isEmpty, isWatched else { return }
        core.trees.forget(namespaceID)
        isWatched = false
        // Nobody may step this reader for long: what it has counted counts no more.
        laneTrees = LaneTrees()
    }

    func follower(at cursor: LogCursor) -> LogFollower {
        LogFollower(namespaceID, at: cursor) {
            $0.pageEntries = core.settings.pageEntries
            $0.separatesKinds = true
            $0.checksHistory = true
        }
    }

    // MARK: Reading

    /// Takes a step with each lane. True where there is more to do at once.
    func step(on connection: LogConnection) throws -> Bool {
        var hasMore = false
        var index = 0
        while index < readings.count {
            if try step(index, on: connection) {
                hasMore = true
                readings[index].usedAt = Clock.monotonicMilliseconds
            }
            index += 1
        }
        joinLevel()
        keepTree()
        lookAtTrees()
        // Last: lanes that have their trees do not wait for one whose tree can't be made.
        let hasWoken = try wakeLanes(on: connection)
        return hasMore || hasWoken
    }

    /// The log has grown, as somebody said.
    func headSeen() {
        for index in readings.indices { readings[index].isAtEnd = false }
    }

    private func step(_ index: Int, on connection: LogConnection) throws -> Bool {
        if readings[index].lane.isWide {
            guard let finding = readings[index].lane.goOn() else { return false }
            found([finding])
            return true
        }
        if let full = readings[index].lane.splitFull() {
            readings.append(
                Reading(
                    lane: full, follower: readings[index].follower, page: readings[index].page,
                    bulk: readings[index].bulk, keptUntil: readings[index].keptUntil))
        }
        if readings[index].lane.isFull { return false }
        if let bulk = readings[index].bulk { return try passBulk(index, bulk, on: connection) }
        if readings[index].page.isEmpty {
            guard !readings[index].isAtEnd else { return false }
            if let hasMore = takeSteps(index) { return hasMore }
            guard try read(index, on: connection) else { return false }
        }
        pass(index)
        return true
    }

    /// Goes on with what the gateway's own trees have just been through, so that what it knows already need not be read once more. Nil
    /// where that is not known; else whether there was something.
    private func takeSteps(_ index: Int) -> Bool? {
        let cursor = readings[index].lane.cursor
        guard let steps = core.trees.steps(of: namespaceID, after: cursor, most: Self.mostSteps) else { return nil }
        guard let first = steps.first else {
            // The gateway need not have heard of everything: the log is looked at now and then.
            guard Clock.monotonicMilliseconds - readAt < Self.mostUnreadMilliseconds else { return nil }
            readings[index].isAtEnd = true
            return false
        }
        if let root = first.before { readings[index].lane.share(root) }
        var findings = readings[index].lane.feeds.map { LaneFinding(claim: $0.claim) }
        var left: [FeedLane] = []
        for step in steps {
            left += readings[index].lane.pass(
                step.entry, at: LogCursor(seq: step.entry.seq, batch: step.batch),
                after: step.after ?? Self.applied(step.entry, to: readings[index].lane.root),
                places: step.entry.changes.map(\.path), &findings)
            if findings.isEmpty || !left.isEmpty || findings.contains(where: { $0.isFull }) { break }
        }
        readings[index].follower.restart(at: readings[index].lane.cursor)
        let follower = readings[index].follower
        finish(
            index, findings,
            left.map {
                Reading(lane: $0, follower: follower, keptUntil: readings[index].keptUntil)
            })
        return true
    }

    private static let mostSteps = 500
    private static let mostUnreadMilliseconds: Milliseconds = 1_000

    /// Reads the next page. False at the log's end.
    private func read(_ index: Int, on connection: LogConnection) throws -> Bool {
        readAt = Clock.monotonicMilliseconds
        switch try readings[index].follower.next(on: connection) {
        case .entries(let entries): readings[index].page = entries[...]
        case .rules(let logged): passWithout(index, logged)
        case .bulk(let logged):
            // Should the connection be lost meanwhile, it is this entry's turn again.
            readings[index].bulk = logged
            return try passBulk(index, logged, on: connection)
        case .end:
            readings[index].isAtEnd = true
            shareTree(index)
            return false
        case .missing(let range, _):
            let claims = Set(readings[index].lane.feeds.map(\.claim))
            restart(claims, "entries from seq \(range.lowerBound) on are not in the log any more")
            readings[index].isAtEnd = true
            return false
        case .takenBack:
            restart(Set(readings[index].lane.feeds.map(\.claim)), "the database has lost entries")
            readings[index].isAtEnd = true
            return false
        }
        return true
    }

    /// Passes entries of the page until many messages are found.
    private func pass(_ index: Int) {
        var findings = readings[index].lane.feeds.map { LaneFinding(claim: $0.claim) }
        var left: [Reading] = []
        while let logged = readings[index].page.popFirst() {
            let root = Self.applied(logged.entry, to: readings[index].lane.root)
            for lane in readings[index].lane.pass(
                logged.entry, at: logged.cursor, after: root, places: logged.entry.changes.map(\.path), &findings)
            {
                // Its own follower goes on behind the entry.
                left.append(
                    Reading(
                        lane: lane, follower: readings[index].follower, page: readings[index].page,
                        keptUntil: readings[index].keptUntil))
            }
            if findings.isEmpty || findings.contains(where: { $0.isFull }) { break }
        }
        finish(index, findings, left)
    }

    private static func applied(_ entry: Entry, to root: Node) -> Node {
        root.replacing(entry.changes)
    }

    private func finish(_ index: Int, _ findings: [LaneFinding], _ left: [Reading]) {
        let told = findings + readings[index].lane.takePartial()
        readings += left
        if readings[index].lane.feeds.isEmpty { readings[index].isAtEnd = true }
        found(told.filter { !$0.messages.isEmpty || $0.readTo != nil })
    }

    /// An entry that changes no data.
    private func passWithout(_ index: Int, _ logged: LoggedEntry) {
        var findings = readings[index].lane.feeds.map { LaneFinding(claim: $0.claim) }
        _ = readings[index].lane.pass(
            logged.entry, at: logged.cursor, after: readings[index].lane.root, places: [], &findings)
        finish(index, findings, [])
    }

    /// Passes an entry that is in parts. Returns false if the log does not have all of the entry, as after a failover or after retention
    /// removed it: then the feeds start again. `bulk` keeps the entry in that case, because the follower is past it.
    private func passBulk(_ index: Int, _ logged: LoggedEntry, on connection: LogConnection) throws -> Bool {
        // On what the lane has, and as it is in memory: what is not changed has to be the very same, so that it need not be compared.
        var tree = PastTree(
            connection, namespaceID, root: readings[index].lane.root, at: readings[index].lane.cursor.seq)
        do {
            // The entry may have been read over an earlier connection: after a failover another entry may have its seq.
            guard try connection.entry(namespaceID, logged.entry.seq)?.batchID == logged.batchID else {
                throw LogStoreError.partMissing(seq: logged.entry.seq, part: 0, count: nil)
            }
            try tree.apply(logged.entry)
        } catch let error as LogStoreError {
            guard case .partMissing = error else { throw error }
            restart(Set(readings[index].lane.feeds.map(\.claim)), "\(error)")
            return false
        }
        readings[index].bulk = nil
        var findings = readings[index].lane.feeds.map { LaneFinding(claim: $0.claim) }
        let left = readings[index].lane.pass(
            logged.entry, at: logged.cursor, after: tree.root, places: nil, &findings
        ).map {
            Reading(
                lane: $0, follower: readings[index].follower, page: readings[index].page,
                keptUntil: readings[index].keptUntil)
        }
        finish(index, findings, left)
        laneTrees.hurry()
        return true
    }

    /// Lanes that have come to the same entry go on together.
    private func joinLevel() {
        readings.removeAll { $0.lane.feeds.isEmpty }
        guard readings.count > 1 else { return }
        var kept: [Reading] = []
        for reading in readings {
            let isFree = !reading.lane.isWide && reading.page.isEmpty && reading.bulk == nil
            if isFree,
                let index = kept.firstIndex(where: {
                    $0.page.isEmpty && $0.bulk == nil && !$0.lane.isWide
                        && $0.lane.cursor.seq == reading.lane.cursor.seq
                })
            {
                kept[index].lane.join(reading.lane)
                kept[index].keptUntil = max(kept[index].keptUntil, reading.keptUntil)
            } else {
                kept.append(reading)
            }
        }
        readings = kept
    }
}

/// A feed that is to be read from now on.
struct FeedStart: Sendable {
    let feed: LaneFeed
    let name: FeedName
    let progress: FeedProgress

    /// The entry behind which it begins.
    var wantedSeq: Int64 { progress.snapshotSeq ?? progress.seq }
}
