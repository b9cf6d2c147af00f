import LogStore
import Runtime
import Tree

/// Reads slices of logs over a connection.
struct LogSliceReader {
    let connection: LogConnection
    let limits: LogReadLimits

    /// What there is of a namespace's log.
    func extent(_ namespace: Int64, _ name: String) throws(LogStoreError) -> LogExtent {
        guard let record = try connection.history(namespace, at: 0) else { throw .unknownNamespace(name) }
        return LogExtent(record)
    }

    /// The lines behind a place: some, so that nobody waits long for those of others.
    func slice(
        _ view: LogView, at place: LogPlace, installation: String
    ) throws(LogStoreError) -> Result<LogSlice, LogReadError> {
        let lines = LogLineMaker(
            installation: installation, namespace: view.name, within: view.path, hasOrigins: view.hasOrigins)
        var slice = LogSlice(at: place)
        if place.inside != nil { return try rest(of: view, lines, slice) }
        switch try page(view, place) {
        case .entries(let page):
            for logged in page where slice.end.inside == nil {
                let (end, lineCount) = (slice.end, slice.lines.count)
                do throws(LogStoreError) {
                    try add(logged, lines, view, &slice)
                } catch .partMissing(_, let part, let count) {
                    // The reader gets what is before the entry first, and the refusal when it asks again.
                    guard end != place else {
                        return .failure(try refusal(view, at: place, of: logged, part, count))
                    }
                    slice.lines.removeSubrange(lineCount...)
                    slice.end = end
                    return .success(slice)
                }
                if slice.byteCount >= limits.sliceBytes { break }
            }
        case .missing(let seqs, _) where seqs.isEmpty:
            // Nobody knows whether the entries behind are of the place's history; none is missing.
            guard place.batch != nil else { return .failure(try refusal(view, at: place)) }
            return try self.slice(view, at: LogPlace(seq: place.seq), installation: installation)
        case .missing(let seqs, _): return .failure(.pruned(oldest: seqs.upperBound))
        case .takenBack(nil): throw .unknownNamespace(view.name)
        case .takenBack(let record?): return .failure(.otherHistory(head: record.head))
        case .bulk, .rules, .end: break
        }
        guard slice.end.inside == nil else { return .success(slice) }
        let head = try connection.heads([view.namespace]).first?.head ?? 0
        slice.isAtEnd = slice.end.seq >= head
        return .success(slice)
    }

    private func page(_ view: LogView, _ place: LogPlace) throws(LogStoreError) -> LogEvent {
        let limits = limits
        var follower = LogFollower(view.namespace, at: LogCursor(seq: place.seq, batch: place.batch)) {
            $0.pageEntries = limits.sliceEntries
            $0.pageBytes = limits.sliceBytes
            $0.checksHistory = true
        }
        return try follower.next(on: connection)
    }

    /// Continues inside an entry that is in parts. The entry's batch must be the place's: after a failover another entry may have its seq.
    /// The view must have a line of the entry: a reader receives no places inside other entries, and a forged one must not reveal them.
    private func rest(
        of view: LogView, _ lines: LogLineMaker, _ slice: LogSlice
    ) throws(LogStoreError) -> Result<LogSlice, LogReadError> {
        let place = slice.end
        guard let logged = try connection.entry(view.namespace, place.seq + 1), logged.entry.isBulk,
            logged.batchID == place.batch, lines.line(of: logged.entry, time: "") != nil
        else { return .failure(try refusal(view, at: place)) }
        var slice = slice
        do throws(LogStoreError) {
            try addParts(of: logged, lines, view, &slice)
        } catch .partMissing(_, let part, let count) {
            return .failure(try refusal(view, at: place, of: logged, part, count))
        }
        return .success(slice)
    }

    /// Returns the reason for which the log does not continue inside an entry that lacks a part.
    ///
    /// - Parameter count: the number of parts that the entry has; nil if the log does not have the entry any more.
    private func refusal(
        _ view: LogView, at place: LogPlace, of logged: LoggedEntry, _ part: Int32, _ count: Int32?
    ) throws(LogStoreError) -> LogReadError {
        let refusal = try refusal(view, at: place)
        guard case .otherHistory = refusal, let count, part < count else { return refusal }
        return .damaged(next: Self.behind(logged))
    }

    /// Returns the reason for which the log does not continue at a place.
    private func refusal(_ view: LogView, at place: LogPlace) throws(LogStoreError) -> LogReadError {
        let extent = try extent(view.namespace, view.name)
        return place.seq < extent.oldest - 1 ? .pruned(oldest: extent.oldest) : .otherHistory(head: extent.head)
    }

    private func add(
        _ logged: LoggedEntry, _ lines: LogLineMaker, _ view: LogView, _ slice: inout LogSlice
    ) throws(LogStoreError) {
        let entry = logged.entry
        guard let line = lines.line(of: entry, time: Timestamp.iso8601(unixMilliseconds: entry.committedAt)) else {
            slice.end = Self.behind(logged)
            return
        }
        guard entry.isBulk else { return slice.add(line, to: Self.behind(logged)) }
        slice.add(
            line,
            to: LogPlace(seq: slice.end.seq, batch: logged.batchID, inside: LogPlace.Inside(part: 0, lines: 0)))
        try addParts(of: logged, lines, view, &slice)
    }

    /// Adds lines of parts until the slice is full, or the entry's last.
    private func addParts(
        of logged: LoggedEntry, _ lines: LogLineMaker, _ view: LogView, _ slice: inout LogSlice
    ) throws(LogStoreError) {
        var count = 0
        while var inside = slice.end.inside {
            guard count < limits.sliceParts, slice.byteCount < limits.sliceBytes else { return }
            count += 1
            guard let changes = try connection.part(inside.part, of: logged.entry.seq, view.namespace) else {
                return slice.add(
                    lines.end(of: logged.entry.seq, parts: Int(inside.lines)), to: Self.behind(logged))
            }
            inside.part += 1
            var place = slice.end
            if let line = lines.line(ofPart: changes, of: logged.entry.seq) {
                inside.lines += 1
                place.inside = inside
                slice.add(line, to: place)
            } else {
                slice.end.inside = inside
            }
        }
    }

    private static func behind(_ logged: LoggedEntry) -> LogPlace {
        LogPlace(seq: logged.entry.seq, batch: logged.batchID)
    }
}

extension LogSlice {
    fileprivate mutating func add(_ line: LogLine, to place: LogPlace) {
        let json = line.json
        byteCount += json.count
        lines.append(json)
        end = place
    }
}
