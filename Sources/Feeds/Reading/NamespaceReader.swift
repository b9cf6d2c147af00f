import LogStore
import Runtime
import Tree

/// Reads a namespace's log for the feeds that run on this gateway. A shared reader (`SharedReader`) reads for all feeds at the same
/// entry. A feed whose messages are not consumed moves to a reader of its own, so that the other feeds do not wait for it.
///
/// Used only by the thread that currently has the namespace.
///
/// Each shared reader has a `Reading`: the reader, its position in the log, and the entries that were read and not yet passed.
///
///     the gateway's own trees ── steps ──┐
///     (TreeSource)                       ├──► SharedReader.pass ──► found: messages of each feed, to the dispatcher
///     log ── LogFollower ── page, bulk ──┘
///
/// `step` gives each shared reader one turn:
///
/// 1. A reader in the middle of an entry processes the next records of the entry, and its turn ends.
/// 2. Feeds without room move to a reader of their own. If no feed of the reader has room, the turn ends.
/// 3. If the reader has entries, it passes them: a load (`bulk`), whose parts are read now, or the rest of the page.
/// 4. Otherwise the reader passes the entries that the gateway's own trees have applied, or reads the next page of the log and
///    passes that. The turn ends early when a feed has many messages.
///
/// Afterwards `step` joins readers at the same entry, counts the memory of the readers' trees, and rebuilds the trees of resting
/// readers whose feeds have room again. If the log no longer contains the entries that a reader needs, or the database has lost
/// entries, the reader's feeds restart (`restart`).
final class NamespaceReader {
    struct Reading {
        var reader: SharedReader
        var follower: LogFollower
        /// The entries that were read and not yet passed.
        var page: ArraySlice<LoggedEntry> = []
        /// A load that was read and not yet passed. Its parts have yet to be read.
        var bulk: LoggedEntry?
        var isAtEnd = false
        /// The time of the reader's last step, in monotonic milliseconds.
        var usedAt = Clock.monotonicMilliseconds
        /// The time until which the reader keeps its tree, in monotonic milliseconds.
        var keptUntil: Milliseconds = 0
    }

    let core: FeedCore
    let namespaceID: Int64
    private let found: ([FoundMessages]) -> Void
    let restart: (Set<FeedClaim>, String) -> Void
    let keep: (TreeVersion) -> Void
    private let wake: @Sendable () -> Void
    /// The position of the newest stored tree, from which a takeover can start, or nil if unknown.
    var keptSeq: Int64?
    var readings: [Reading] = []
    /// The shared readers that have released their trees because memory is short and their feeds have no room.
    var resting: [RestingReader] = []
    /// The memory of the shared readers' trees.
    var readerTrees = SharedReaderTrees()
    private(set) var name = ""
    private var isWatched = false
    /// The time when a reader's tree was last replaced by the gateway's own tree, in monotonic milliseconds.
    var sharedAt: Milliseconds = 0
    /// The time when the log itself was last read, in monotonic milliseconds.
    private var readAt: Milliseconds = 0

    /// - Parameters:
    ///   - found: Receives messages, in order.
    ///   - restart: Receives feeds that must restart, and the reason.
    ///   - keep: Receives a tree that should be stored.
    ///   - wake: Called when the namespace has new entries.
    init(
        _ core: FeedCore, _ namespaceID: Int64, found: @escaping ([FoundMessages]) -> Void,
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

    // MARK: Adding and removing feeds

    /// Builds the tree at the position where a feed begins, and starts reading there. Returns false and does nothing while the
    /// gateway is loading the namespace; `wake` is called when the load has ended.
    ///
    /// - Parameter base: A tree that was built just before on the same connection, if any. On return, the tree built here.
    func add(_ start: FeedStart, on connection: LogConnection, from base: inout TreeVersion?) throws -> Bool {
        name = start.name.namespace
        if !isWatched {
            core.trees.watch(name, namespaceID, wake)
            isWatched = true
        }
        guard !core.trees.isComing(namespaceID) else { return false }
        let root = try tree(at: start.wantedSeq, on: connection, from: base)
        base = TreeVersion(seq: start.wantedSeq, root: root)
        let cursor = LogPosition(seq: start.wantedSeq)
        let reader: SharedReader
        if start.progress.snapshotSeq != nil {
            let time = try cursor.seq == 0 ? nil : connection.entry(namespaceID, cursor.seq)?.entry.committedAt
            reader = SharedReader(
                start.feed, snapshot: root, at: cursor, from: start.progress.index,
                time: time ?? Clock.unixMilliseconds)
        } else {
            reader = SharedReader([start.feed], root: root, at: cursor)
        }
        if keptSeq == nil { keptSeq = try connection.snapshots(namespaceID).last?.seq ?? 0 }
        // No later step may fail: the caller repeats a failed start, and two readers would then find the same messages.
        readings.append(Reading(reader: reader, follower: follower(at: cursor)))
        readerTrees.hurry()
        return true
    }

    func remove(_ claim: FeedClaim) {
        for index in readings.indices { readings[index].reader.remove(claim) }
        readings.removeAll { $0.reader.feeds.isEmpty }
        for index in resting.indices { resting[index].remove(claim) }
        resting.removeAll { $0.feeds.isEmpty }
        guard readings.isEmpty, resting.isEmpty, isWatched else { return }
        core.trees.forget(namespaceID)
        isWatched = false
        // This reader may not run again for a long time, so its count must not remain in the budget.
        readerTrees = SharedReaderTrees()
    }

    func follower(at cursor: LogPosition) -> LogFollower {
        LogFollower(namespaceID, at: cursor) {
            $0.pageEntries = core.settings.pageEntries
            $0.separatesKinds = true
            $0.checksHistory = true
        }
    }

    // MARK: Reading

    /// Runs a step of each shared reader. Returns whether more work is available at once.
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
        // This comes last, so that readers with trees do not wait for a reader whose tree cannot be built.
        let hasWoken = try wakeReaders(on: connection)
        return hasMore || hasWoken
    }

    /// Notes that the log may have grown.
    func headSeen() {
        for index in readings.indices { readings[index].isAtEnd = false }
    }

    private func step(_ index: Int, on connection: LogConnection) throws -> Bool {
        if readings[index].reader.isWide {
            guard let finding = readings[index].reader.resume() else { return false }
            found([finding])
            return true
        }
        if let full = readings[index].reader.splitFull() {
            readings.append(
                Reading(
                    reader: full, follower: readings[index].follower, page: readings[index].page,
                    bulk: readings[index].bulk, keptUntil: readings[index].keptUntil))
        }
        if readings[index].reader.isFull { return false }
        if let bulk = readings[index].bulk { return try passBulk(index, bulk, on: connection) }
        if readings[index].page.isEmpty {
            guard !readings[index].isAtEnd else { return false }
            if let hasMore = takeSteps(index) { return hasMore }
            guard try read(index, on: connection) else { return false }
        }
        pass(index)
        return true
    }

    /// Passes the entries that the gateway's own trees have just applied, which saves reading them again. Returns nil if the
    /// gateway does not know the next entries, and otherwise whether there were any.
    private func takeSteps(_ index: Int) -> Bool? {
        let cursor = readings[index].reader.cursor
        guard let steps = core.trees.steps(of: namespaceID, after: cursor, most: Self.mostSteps) else { return nil }
        guard let first = steps.first else {
            // The gateway may have missed an announcement, so the log itself is read at least once a second.
            guard Clock.monotonicMilliseconds - readAt < Self.mostUnreadMilliseconds else { return nil }
            readings[index].isAtEnd = true
            return false
        }
        if let root = first.before { readings[index].reader.share(root) }
        var findings = readings[index].reader.feeds.map { FoundMessages(claim: $0.claim) }
        var left: [SharedReader] = []
        for step in steps {
            left += readings[index].reader.pass(
                step.entry, at: LogPosition(seq: step.entry.seq, batch: step.batch),
                after: step.after ?? Self.applied(step.entry, to: readings[index].reader.root),
                paths: step.entry.changes.map(\.path), &findings)
            if findings.isEmpty || !left.isEmpty || findings.contains(where: { $0.isFull }) { break }
        }
        readings[index].follower.restart(at: readings[index].reader.cursor)
        let follower = readings[index].follower
        finish(
            index, findings,
            left.map {
                Reading(reader: $0, follower: follower, keptUntil: readings[index].keptUntil)
            })
        return true
    }

    private static let mostSteps = 500
    private static let mostUnreadMilliseconds: Milliseconds = 1_000

    /// Reads the next page. Returns false at the end of the log.
    private func read(_ index: Int, on connection: LogConnection) throws -> Bool {
        readAt = Clock.monotonicMilliseconds
        switch try readings[index].follower.next(on: connection) {
        case .entries(let entries): readings[index].page = entries[...]
        case .rules(let logged): passWithout(index, logged)
        case .bulk(let logged):
            // If the connection is lost while the parts are read, the entry is retried.
            readings[index].bulk = logged
            return try passBulk(index, logged, on: connection)
        case .end:
            readings[index].isAtEnd = true
            shareTree(index)
            return false
        case .missing(let range, _):
            let claims = Set(readings[index].reader.feeds.map(\.claim))
            restart(claims, "the entries from seq \(range.lowerBound) on are no longer in the log")
            readings[index].isAtEnd = true
            return false
        case .rolledBack:
            restart(Set(readings[index].reader.feeds.map(\.claim)), "the database has lost entries")
            readings[index].isAtEnd = true
            return false
        }
        return true
    }

    /// Passes entries of the page until many messages have been found.
    private func pass(_ index: Int) {
        var findings = readings[index].reader.feeds.map { FoundMessages(claim: $0.claim) }
        var left: [Reading] = []
        while let logged = readings[index].page.popFirst() {
            let root = Self.applied(logged.entry, to: readings[index].reader.root)
            for reader in readings[index].reader.pass(
                logged.entry, at: logged.position, after: root, paths: logged.entry.changes.map(\.path), &findings)
            {
                // The new reader's own follower resumes after the entry.
                left.append(
                    Reading(
                        reader: reader, follower: readings[index].follower, page: readings[index].page,
                        keptUntil: readings[index].keptUntil))
            }
            if findings.isEmpty || findings.contains(where: { $0.isFull }) { break }
        }
        finish(index, findings, left)
    }

    private static func applied(_ entry: Entry, to root: Node) -> Node {
        root.replacing(entry.changes)
    }

    private func finish(_ index: Int, _ findings: [FoundMessages], _ left: [Reading]) {
        let reported = findings + readings[index].reader.takePartial()
        readings += left
        if readings[index].reader.feeds.isEmpty { readings[index].isAtEnd = true }
        found(reported.filter { !$0.messages.isEmpty || $0.readTo != nil })
    }

    /// Passes an entry that changes no data.
    private func passWithout(_ index: Int, _ logged: LoggedEntry) {
        var findings = readings[index].reader.feeds.map { FoundMessages(claim: $0.claim) }
        _ = readings[index].reader.pass(
            logged.entry, at: logged.position, after: readings[index].reader.root, paths: [], &findings)
        finish(index, findings, [])
    }

    /// Passes an entry that is stored in parts. Returns false if the log does not have the whole entry, for example after a failover or
    /// after retention removed it; the feeds then restart. `bulk` keeps the entry in that case, because the follower is already past it.
    private func passBulk(_ index: Int, _ logged: LoggedEntry, on connection: LogConnection) throws -> Bool {
        // The tree is built on the reader's tree in memory, so that unchanged nodes stay identical and need not be compared.
        var tree = PastTree(
            connection, namespaceID, root: readings[index].reader.root, at: readings[index].reader.cursor.seq)
        do {
            // The entry may have been read on an earlier connection: after a failover another entry may have its seq.
            guard try connection.entry(namespaceID, logged.entry.seq)?.batchID == logged.batchID else {
                throw LogStoreError.partMissing(seq: logged.entry.seq, part: 0, count: nil)
            }
            try tree.apply(logged.entry)
        } catch let error as LogStoreError {
            guard case .partMissing = error else { throw error }
            restart(Set(readings[index].reader.feeds.map(\.claim)), "\(error)")
            return false
        }
        readings[index].bulk = nil
        var findings = readings[index].reader.feeds.map { FoundMessages(claim: $0.claim) }
        let left = readings[index].reader.pass(
            logged.entry, at: logged.position, after: tree.root, paths: nil, &findings
        ).map {
            Reading(
                reader: $0, follower: readings[index].follower, page: readings[index].page,
                keptUntil: readings[index].keptUntil)
        }
        finish(index, findings, left)
        readerTrees.hurry()
        return true
    }

    /// Joins shared readers that have reached the same entry.
    private func joinLevel() {
        readings.removeAll { $0.reader.feeds.isEmpty }
        guard readings.count > 1 else { return }
        var kept: [Reading] = []
        for reading in readings {
            let isFree = !reading.reader.isWide && reading.page.isEmpty && reading.bulk == nil
            if isFree,
                let index = kept.firstIndex(where: {
                    $0.page.isEmpty && $0.bulk == nil && !$0.reader.isWide
                        && $0.reader.cursor.seq == reading.reader.cursor.seq
                })
            {
                kept[index].reader.join(reading.reader)
                kept[index].keptUntil = max(kept[index].keptUntil, reading.keptUntil)
            } else {
                kept.append(reading)
            }
        }
        readings = kept
    }
}

/// A feed to start reading.
struct FeedStart: Sendable {
    let feed: SharedReaderFeed
    let name: FeedName
    let progress: FeedProgress

    /// The seq of the entry after which the feed begins.
    var wantedSeq: Int64 { progress.snapshotSeq ?? progress.seq }
}
