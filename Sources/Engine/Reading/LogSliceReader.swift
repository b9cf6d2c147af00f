public import LogStore
import Runtime
public import Tree

/// Reads slices of logs over a connection.
struct LogSliceReader {
    let connection: LogConnection
    let limits: LogReadLimits

    /// Returns the extent of a namespace's log.
    func extent(_ namespace: Int64, _ name: String) throws(LogStoreError) -> LogExtent {
        guard let record = try connection.history(namespace, at: 0) else { throw .unknownNamespace(name) }
        return LogExtent(record)
    }

    /// Reads lines after a log position. Their number is limited, so that other readers do not wait for long.
    func slice(
        _ view: LogView, at position: LogLinePosition, installation: String
    ) throws(LogStoreError) -> Result<LogSlice, LogReadError> {
        let lines = LogLineMaker(
            installation: installation, namespace: view.name, within: view.path, hasOrigins: view.hasOrigins)
        var slice = LogSlice(at: position)
        if position.inside != nil { return try rest(of: view, lines, slice) }
        switch try page(view, position) {
        case .entries(let page):
            for logged in page where slice.end.inside == nil {
                let (end, lineCount) = (slice.end, slice.lines.count)
                do throws(LogStoreError) {
                    try add(logged, lines, view, &slice)
                } catch .partMissing(_, let part, let count) {
                    // The reader first gets the lines before the entry, and the refusal with its next request.
                    guard end != position else {
                        return .failure(try refusal(view, at: position, of: logged, part, count))
                    }
                    slice.lines.removeSubrange(lineCount...)
                    slice.end = end
                    return .success(slice)
                }
                if slice.byteCount >= limits.sliceBytes { break }
            }
        case .missing(let seqs, _) where seqs.isEmpty:
            // The position has no batch to show whether the entries after it belong to its history; none is missing.
            guard position.entry.batch != nil else { return .failure(try refusal(view, at: position)) }
            return try self.slice(view, at: LogLinePosition(LogPosition(seq: position.seq)), installation: installation)
        case .missing(let seqs, _): return .failure(.pruned(oldest: seqs.upperBound))
        case .rolledBack(nil): throw .unknownNamespace(view.name)
        case .rolledBack(let record?): return .failure(.otherHistory(head: record.head))
        case .bulk, .rules, .end: break
        }
        guard slice.end.inside == nil else { return .success(slice) }
        let head = try connection.heads([view.namespace]).first?.head.seq ?? 0
        slice.isAtEnd = slice.end.seq >= head
        return .success(slice)
    }

    private func page(_ view: LogView, _ position: LogLinePosition) throws(LogStoreError) -> LogEvent {
        let limits = limits
        var follower = LogFollower(view.namespace, at: position.entry) {
            $0.pageEntries = limits.sliceEntries
            $0.pageBytes = limits.sliceBytes
            $0.checksHistory = true
        }
        return try follower.next(on: connection)
    }

    /// Continues inside an entry that is stored in parts. The entry's batch must be the position's: after a failover
    /// another entry may have its seq. The view must have a line of the entry: a reader receives no positions inside
    /// other entries, and a forged one must not reveal them.
    private func rest(
        of view: LogView, _ lines: LogLineMaker, _ slice: LogSlice
    ) throws(LogStoreError) -> Result<LogSlice, LogReadError> {
        let position = slice.end
        guard let logged = try connection.entry(view.namespace, position.seq + 1), logged.entry.isBulk,
            logged.batchID == position.inside?.batch, lines.line(of: logged.entry, time: "") != nil
        else { return .failure(try refusal(view, at: position)) }
        var slice = slice
        do throws(LogStoreError) {
            try addParts(of: logged, lines, view, &slice)
        } catch .partMissing(_, let part, let count) {
            return .failure(try refusal(view, at: position, of: logged, part, count))
        }
        return .success(slice)
    }

    /// Returns the reason why the log does not continue inside an entry that lacks a part.
    ///
    /// - Parameter count: the number of parts of the entry; nil if the log no longer has the entry.
    private func refusal(
        _ view: LogView, at position: LogLinePosition, of logged: LoggedEntry, _ part: Int32, _ count: Int32?
    ) throws(LogStoreError) -> LogReadError {
        let refusal = try refusal(view, at: position)
        guard case .otherHistory = refusal, let count, part < count else { return refusal }
        return .damaged(next: Self.after(logged))
    }

    /// Returns the reason why the log does not continue at a position.
    private func refusal(_ view: LogView, at position: LogLinePosition) throws(LogStoreError) -> LogReadError {
        let extent = try extent(view.namespace, view.name)
        return position.seq < extent.oldest - 1 ? .pruned(oldest: extent.oldest) : .otherHistory(head: extent.head.seq)
    }

    private func add(
        _ logged: LoggedEntry, _ lines: LogLineMaker, _ view: LogView, _ slice: inout LogSlice
    ) throws(LogStoreError) {
        let entry = logged.entry
        guard let line = lines.line(of: entry, time: Timestamp.iso8601(unixMilliseconds: entry.committedAt)) else {
            slice.end = Self.after(logged)
            return
        }
        guard entry.isBulk else { return slice.add(line, to: Self.after(logged)) }
        slice.add(
            line,
            to: LogLinePosition(
                LogPosition(seq: slice.end.seq),
                inside: LogLinePosition.Inside(batch: logged.batchID, part: 0, lines: 0)))
        try addParts(of: logged, lines, view, &slice)
    }

    /// Adds lines of parts until the slice is full or the entry ends.
    private func addParts(
        of logged: LoggedEntry, _ lines: LogLineMaker, _ view: LogView, _ slice: inout LogSlice
    ) throws(LogStoreError) {
        var count = 0
        while var inside = slice.end.inside {
            guard count < limits.sliceParts, slice.byteCount < limits.sliceBytes else { return }
            count += 1
            guard let changes = try connection.part(inside.part, of: logged.entry.seq, view.namespace) else {
                return slice.add(
                    lines.end(of: logged.entry.seq, parts: Int(inside.lines)), to: Self.after(logged))
            }
            inside.part += 1
            var position = slice.end
            if let line = lines.line(ofPart: changes, of: logged.entry.seq) {
                inside.lines += 1
                position.inside = inside
                slice.add(line, to: position)
            } else {
                slice.end.inside = inside
            }
        }
    }

    private static func after(_ logged: LoggedEntry) -> LogLinePosition {
        LogLinePosition(logged.position)
    }
}

extension LogSlice {
    fileprivate mutating func add(_ line: LogLine, to position: LogLinePosition) {
        let json = line.json
        byteCount += json.count
        lines.append(json)
        end = position
    }
}

/// The part of a log that its reader requests.
public struct LogView: Sendable {
    public let namespace: Int64
    public let name: String
    /// Only changes that touch this path, narrowed to it; the root for everything.
    public let path: Path
    /// Whether lines contain the authors of entries.
    public let hasOrigins: Bool

    public init(namespace: Int64, name: String, path: Path, hasOrigins: Bool) {
        self.namespace = namespace
        self.name = name
        self.path = path
        self.hasOrigins = hasOrigins
    }
}

/// The range of a log.
public struct LogExtent: Sendable, Equatable {
    /// The position after the last entry. Its batch is nil for an empty log.
    public let head: LogPosition
    /// The seq of the oldest retained entry; one after the head if there is none.
    public let oldest: Int64

    public init(head: LogPosition, oldest: Int64) {
        self.head = head
        self.oldest = oldest
    }

    init(_ record: HistoryRecord) {
        // An empty log has the key of the ids of stream events in place of a batch, which no reader may learn.
        let batch = record.head == 0 ? nil : record.headBatch
        self.init(head: LogPosition(seq: record.head, batch: batch), oldest: record.retainedFrom)
    }
}

/// Some consecutive lines of a log.
public struct LogSlice: Sendable {
    /// JSON, without line ends.
    public internal(set) var lines: [[UInt8]] = []
    /// The position after all entries that were read, with or without lines.
    public internal(set) var end: LogLinePosition
    /// Whether the log ended there.
    public internal(set) var isAtEnd = false
    var byteCount = 0

    init(at position: LogLinePosition) { end = position }

    /// Creates a slice without lines at the end of the log.
    public init(emptyAt position: LogLinePosition) {
        end = position
        isAtEnd = true
    }
}

/// The reason why a log cannot be read from a position.
public enum LogReadError: Error, Sendable, Equatable {
    /// The entries after the position were pruned.
    case pruned(oldest: Int64)
    /// The log has another history than the position, or has never reached it.
    case otherHistory(head: Int64)
    /// The entry after the position has lost a part, which only damage to the database explains. `next` is the position
    /// after the entry.
    case damaged(next: LogLinePosition)
    case engine(EngineError)
}

/// A position between two lines of a namespace's log, from which a reader continues.
public struct LogLinePosition: Sendable, Hashable {
    /// The position after the last entry whose lines are all before.
    public var entry: LogPosition
    /// Nil if the next line is an entry's first. Otherwise the position is inside the entry after `entry`, which is
    /// stored in parts.
    public var inside: Inside?

    /// The progress of a reader in the parts of an entry.
    public struct Inside: Sendable, Hashable {
        /// The batch of the entry. Nil if unknown.
        public var batch: [UInt8]?
        /// The number of the next part.
        public var part: Int32
        /// The number of earlier parts with a line: those that concern the reader's path.
        public var lines: Int32

        public init(batch: [UInt8]?, part: Int32, lines: Int32) {
            self.batch = batch
            self.part = part
            self.lines = lines
        }
    }

    public init(_ entry: LogPosition, inside: Inside? = nil) {
        self.entry = entry
        self.inside = inside
    }

    public var seq: Int64 { entry.seq }
}
