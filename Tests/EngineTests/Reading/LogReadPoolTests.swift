import Engine
import LogStore
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tree

/// Checks that slices of any size add up to the log's lines, and that readers take turns.
@Suite struct LogReadPoolTests {
    struct Limits: Sendable {
        let entries: Int
        let bytes: Int
        let parts: Int
    }

    /// The lines that were read, and the end of each slice with the number of lines before it.
    private struct Read {
        var lines: [[UInt8]] = []
        var ends: [(position: LogLinePosition, lines: Int)] = []
    }

    /// Reads from a position to the log's end, slice by slice, and checks that every slice makes progress.
    private func readAll(
        _ engine: TestEngine, _ view: LogView, from position: LogLinePosition = LogLinePosition(LogPosition(seq: 0))
    ) throws -> Read {
        var read = Read()
        var position = position
        while true {
            let slice = try engine.slice(view, at: position).get()
            read.lines += slice.lines
            read.ends.append((slice.end, read.lines.count))
            if slice.isAtEnd { return read }
            #expect(slice.end != position)
            position = slice.end
        }
    }

    private func view(_ namespace: LiveNamespace, _ path: String = "", hasOrigins: Bool = true) -> LogView {
        LogView(namespace: namespace.id, name: namespace.name, path: Path(splitting: path), hasOrigins: hasOrigins)
    }

    /// Writes entries, an import in many parts, and rules.
    private func fill(_ url: PostgresURL, _ namespace: LiveNamespace) throws {
        for number in 1...6 as ClosedRange<Int64> { _ = namespace.write(.set("a/k\(number)", .int(number))) }
        let connection = try LogConnection(url)
        defer { connection.close() }
        let record = try #require(try connection.namespace(id: namespace.id))
        var settings = Importer.Settings()
        settings.bufferBytes = 1
        let importer = try Importer(connection, record, at: Path(splitting: "bulk"), settings: settings)
        for number in 0..<20 {
            try importer.add(Array("/bulk/\(number % 4 == 0 ? "in" : "out")/k\(number)".utf8), .int(Int64(number)))
        }
        try importer.finish()
        #expect(namespace.waitFor(7))
        _ = namespace.write(.update("", [("a/k1", .null), ("bulk/in/k0", .int(9))]))
        _ = namespace.write(.set("z", .string("last")))
    }

    /// Returns the lines that `replay log` writes, which the slices must equal.
    private func expected(_ url: PostgresURL, _ namespace: LiveNamespace, _ path: String) throws -> [[UInt8]] {
        let connection = try LogConnection(url)
        defer { connection.close() }
        let record = try #require(try connection.namespace(id: namespace.id))
        let log = try LogLines(connection, record, within: Path(splitting: path))
        let time = { (time: Int64) in Timestamp.iso8601(unixMilliseconds: time) }
        var lines: [[UInt8]] = []
        try log.run(from: 1, to: record.head, time: time) { line in lines.append(line.json) }
        return lines
    }

    @Test(arguments: [
        Limits(entries: 500, bytes: 1 << 20, parts: 8), Limits(entries: 1, bytes: 1 << 20, parts: 8),
        Limits(entries: 3, bytes: 1, parts: 1), Limits(entries: 500, bytes: 300, parts: 3),
        Limits(entries: 2, bytes: 1 << 20, parts: 1),
    ]) func slicesAddUp(_ limits: Limits) throws {
        try withEngines { settings, _ in
            settings.logReads.sliceEntries = limits.entries
            settings.logReads.sliceBytes = limits.bytes
            settings.logReads.sliceParts = limits.parts
        } _: { url, engines in
            let namespace = try engines[0].namespace()
            try fill(url, namespace)
            for path in ["", "a", "a/k3", "bulk", "bulk/in", "bulk/in/k4", "nowhere", "z"] {
                let read = try readAll(engines[0], view(namespace, path))
                #expect(read.lines == (try expected(url, namespace, path)), "\(path)")
                // Reading from the position between any two slices gives the remaining lines.
                for (index, end) in read.ends.enumerated() where index % 5 == 2 {
                    let rest = try readAll(engines[0], view(namespace, path), from: end.position)
                    #expect(rest.lines == Array(read.lines[end.lines...]))
                }
            }
        }
    }

    @Test func originsAreLeftOutWhereTheyAreNotForTheReader() throws {
        try withEngines { url, engines in
            let namespace = try engines[0].namespace()
            let write = Write(
                .set(Path(splitting: "a"), .int(1)), operation: .set, byteCount: 1, auth: .admin,
                origin: Origin(uid: "ada", isAdmin: true, isOverride: false, via: .rest, address: "192.0.2.1"))
            _ = namespace.write(write)
            for hasOrigins in [true, false] {
                let lines = try readAll(engines[0], view(namespace, hasOrigins: hasOrigins)).lines
                let text = String(decoding: try #require(lines.first), as: UTF8.self)
                #expect(text.contains("192.0.2.1") == hasOrigins && text.contains("ada") == hasOrigins)
            }
        }
    }

    @Test func positionsThatTheLogDoesNotHave() throws {
        try withEngines { settings, _ in
            settings.logReads.sliceEntries = 1
        } _: { _, engines in
            let namespace = try engines[0].namespace()
            for value in 1...4 as ClosedRange<Int64> { _ = namespace.write(.set("a", .int(value))) }
            let view = view(namespace)
            let positions = try readAll(engines[0], view).ends.map { $0.position }
            let beyond = engines[0].slice(view, at: LogLinePosition(LogPosition(seq: 5)))
            #expect(throws: LogReadError.otherHistory(head: 4)) { try beyond.get() }
            let another = engines[0].slice(
                view, at: LogLinePosition(LogPosition(seq: 2, batch: positions[2].entry.batch)))
            #expect(throws: LogReadError.otherHistory(head: 4)) { try another.get() }
            let noParts = engines[0].slice(
                view, at: LogLinePosition(LogPosition(seq: 2), inside: .init(batch: nil, part: 0, lines: 0)))
            #expect(throws: LogReadError.otherHistory(head: 4)) { try noParts.get() }
            let end = try engines[0].slice(view, at: positions[3]).get()
            #expect(end.lines.isEmpty && end.isAtEnd && end.end == positions[3])
            let nowhere = LogView(namespace: 999, name: "gone", path: .root, hasOrigins: true)
            let gone = engines[0].slice(nowhere, at: LogLinePosition(LogPosition(seq: 0)))
            #expect(throws: LogReadError.engine(.unknownNamespace("gone"))) { try gone.get() }
        }
    }

    /// An empty log reports no batch: the key of stream event ids is stored in its place, and no reader may learn the
    /// key.
    @Test func anEmptyLogHasNoBatch() throws {
        try withEngines { _, engines in
            let namespace = try engines[0].namespace()
            let extent = Condition<Result<LogExtent, LogReadError>?>(nil)
            engines[0].engine.logs.extent(of: view(namespace)) { result in extent.broadcast { $0 = result } }
            let found = try #require(extent.wait(milliseconds: 20_000) { $0 }).get()
            #expect(found == LogExtent(head: LogPosition(seq: 0), oldest: 1))
        }
    }

    /// Returns the positions between the slices of an import, one for each part, with the import's seq.
    private func positions(inside namespace: LiveNamespace, _ url: PostgresURL, _ engine: TestEngine) throws
        -> [LogLinePosition]
    {
        try fill(url, namespace)
        let positions = try readAll(engine, view(namespace)).ends.map(\.position).filter { $0.inside != nil }
        #expect(positions.count > 4 && positions.allSatisfy { $0.seq == 6 })
        return positions
    }

    /// After a failover another entry may have the seq of the entry that a reader is inside of.
    @Test func positionsInsideAnEntryThatTheLogDoesNotHave() throws {
        try withEngines { settings, _ in
            settings.logReads.sliceParts = 1
        } _: { url, engines in
            let namespace = try engines[0].namespace()
            let position = try positions(inside: namespace, url, engines[0])[2]
            var wrong = [position, position, position, position]
            wrong[0].inside?.batch = Array(repeating: 7, count: 16)
            wrong[1].inside?.batch = nil
            wrong[2].inside = .init(batch: position.inside?.batch, part: 1_000, lines: 0)
            wrong[3].entry = LogPosition(seq: 7, batch: position.entry.batch)
            for position in wrong {
                let slice = engines[0].slice(view(namespace), at: position)
                #expect(throws: LogReadError.otherHistory(head: 9)) { try slice.get() }
            }
        }
    }

    /// A forged position reveals nothing of an entry that has no line for the reader.
    @Test func positionsInsideAnEntryOfAnotherPart() throws {
        try withEngines { settings, _ in
            settings.logReads.sliceParts = 1
        } _: { url, engines in
            let namespace = try engines[0].namespace()
            for position in try positions(inside: namespace, url, engines[0]) {
                let slice = engines[0].slice(view(namespace, "a"), at: position)
                #expect(throws: LogReadError.otherHistory(head: 9)) { try slice.get() }
            }
        }
    }

    /// The reader of a damaged log gets the entries before the damage, and then the position at which it can continue.
    @Test func anEntryThatIsDamaged() throws {
        try withEngines { settings, _ in
            settings.logReads.sliceParts = 3
        } _: { url, engines in
            let namespace = try engines[0].namespace()
            let inside = try positions(inside: namespace, url, engines[0])[0]
            let whole = try readAll(engines[0], view(namespace)).lines
            try runScript("delete from pathmirror.log_part where part > 0", on: url)
            let before = try engines[0].slice(view(namespace), at: LogLinePosition(LogPosition(seq: 0))).get()
            #expect(before.lines == Array(whole.prefix(6)) && before.end.seq == 6 && !before.isAtEnd)
            var next: LogLinePosition?
            for position in [before.end, LogLinePosition(LogPosition(seq: 6)), inside] {
                let answer = Result { try readAll(engines[0], view(namespace), from: position) }
                let error = #expect(throws: LogReadError.self) { try answer.get() }
                guard case .damaged(let found) = error else {
                    Issue.record("\(String(describing: error))")
                    continue
                }
                #expect(found.seq == 7 && found.entry.batch != nil)
                next = found
            }
            let rest = try readAll(engines[0], view(namespace), from: try #require(next)).lines
            #expect(rest == Array(whole.suffix(2)))
            #expect(try readAll(engines[0], view(namespace, "a")).lines.count == 7)
        }
    }

    /// Half an import is never returned as a whole one, even if retention removes entries between two reads.
    @Test func anEntryThatIsRemovedWhileItIsRead() throws {
        try withEngines { settings, _ in
            settings.logReads.sliceParts = 3
        } _: { url, engines in
            let namespace = try engines[0].namespace()
            let position = try positions(inside: namespace, url, engines[0])[0]
            let sql = try PostgresConnection(url)
            defer { sql.close() }
            let starts = [position, LogLinePosition(LogPosition(seq: 6))]
            for script in [
                "update pathmirror.namespace set retained_from = 8; delete from pathmirror.log_part where part > 3",
                "delete from pathmirror.log_part", "delete from pathmirror.log where seq < 8",
            ] {
                try sql.executeScript(script)
                for start in starts {
                    let answer = Result { try readAll(engines[0], view(namespace), from: start) }
                    #expect(throws: LogReadError.pruned(oldest: 8)) { try answer.get() }
                }
            }
            #expect(
                try readAll(engines[0], view(namespace), from: LogLinePosition(LogPosition(seq: 7))).lines.count == 2)
        }
    }

    /// A reader of the whole log does not delay others: a later request is answered before the reader's next slice.
    @Test func readersTakeTurns() throws {
        try withEngines { settings, _ in
            settings.logReaders = 1
            settings.logReads.sliceEntries = 1
        } _: { _, engines in
            let namespace = try engines[0].namespace()
            for value in 1...40 as ClosedRange<Int64> { _ = namespace.write(.set("a", .int(value))) }
            let (view, logs) = (view(namespace), engines[0].engine.logs)
            let order = Condition<[String]>([])
            @Sendable func readOn(_ position: LogLinePosition) {
                logs.slice(view, at: position) { result in
                    guard case .success(let slice) = result else { return }
                    order.broadcast { $0.append("whole") }
                    if !slice.isAtEnd { readOn(slice.end) }
                }
            }
            readOn(LogLinePosition(LogPosition(seq: 0)))
            logs.slice(view, at: LogLinePosition(LogPosition(seq: 40))) { _ in order.broadcast { $0.append("live") } }
            let seen = try #require(order.wait(milliseconds: 20_000) { $0.count == 41 ? $0 : nil })
            // At most the slice in progress and one requested earlier come first.
            #expect((try #require(seen.firstIndex(of: "live"))) <= 2)
        }
    }

    @Test func noWaitAfterTheEnd() throws {
        let logs = try withEngines { _, engines in
            let namespace = try engines[0].namespace()
            _ = namespace.write(.set("a", .int(1)))
            #expect(try readAll(engines[0], view(namespace)).lines.count == 1)
            return engines[0].engine.logs
        }
        let answer = Condition<Result<LogExtent, LogReadError>?>(nil)
        logs.extent(of: LogView(namespace: 1, name: "test", path: .root, hasOrigins: true)) { result in
            answer.broadcast { $0 = result }
        }
        let result = try #require(answer.wait(milliseconds: 20_000) { $0 })
        #expect(throws: LogReadError.engine(.stopping)) { try result.get() }
    }
}

extension TestEngine {
    /// Reads one slice, and waits for it.
    fileprivate func slice(_ view: LogView, at position: LogLinePosition) -> Result<LogSlice, LogReadError> {
        let answer = Condition<Result<LogSlice, LogReadError>?>(nil)
        engine.logs.slice(view, at: position) { result in answer.broadcast { $0 = result } }
        return answer.wait(milliseconds: 20_000) { $0 } ?? .failure(.engine(.unavailable("not answered in 20 s")))
    }
}
