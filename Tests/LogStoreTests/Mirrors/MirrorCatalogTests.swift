import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Tests of the catalog of mirrors, and of their reported status.
@Suite struct MirrorCatalogTests {
    private let definition = Array("{\"a\": [1, 2]}".utf8)

    @Test func mirrorsAreKeptAsTheyWereGiven() throws {
        try withSession { connection in
            let (one, two) = (try connection.make("one"), try connection.make("two"))
            #expect(try connection.mirrors().isEmpty)
            let late = try connection.addMirror(two.id, name: "late", definition: definition, target: "env:DB")
            let first = try connection.addMirror(one.id, name: "b", definition: definition, target: nil)
            let second = try connection.addMirror(one.id, name: "a", definition: definition, target: nil)
            let all = try connection.mirrors()
            #expect(all.map(\.id) == [second, first, late], "by namespace and name")
            #expect(all.map(\.namespace) == ["one", "one", "two"])
            #expect(all.map(\.namespaceID) == [one.id, one.id, two.id])
            #expect(all.map(\.target) == [nil, nil, "env:DB"])
            #expect(all.allSatisfy { $0.definition == definition && !$0.isPaused })
        }
    }

    @Test func aNameIsUsedOnceInANamespace() throws {
        try withSession { connection in
            let (one, two) = (try connection.make("one"), try connection.make("two"))
            _ = try connection.addMirror(one.id, name: "m", definition: definition, target: nil)
            #expect(throws: LogStoreError.self) {
                try connection.addMirror(one.id, name: "m", definition: definition, target: nil)
            }
            _ = try connection.addMirror(two.id, name: "m", definition: definition, target: nil)
            #expect(try connection.mirrors().count == 2)
        }
    }

    @Test func everyChangeIsAnotherRevisionAndIsAnnounced() throws {
        try withDatabase { url in
            let (connection, listener) = (try LogConnection(url), try LogConnection(url))
            defer {
                connection.close()
                listener.close()
            }
            try listener.listen(to: [.mirrors])
            let record = try connection.make()
            let mirror = try connection.addMirror(record.id, name: "m", definition: definition, target: nil)
            var revisions = [try #require(try connection.mirrors().first).revision]
            func isAnnounced() throws -> Bool {
                try eventually {
                    try listener.waitForAnnouncements(milliseconds: 100, wake: nil).contains(.mirrors)
                }
            }
            try connection.setMirrorPaused(record.id, mirror, true)
            #expect(try isAnnounced())
            revisions.append(try #require(try connection.mirrors().first { $0.isPaused }).revision)
            try connection.setMirrorPaused(record.id, mirror, false)
            #expect(try isAnnounced())
            revisions.append(try #require(try connection.mirrors().first { !$0.isPaused }).revision)
            try connection.redefineMirror(mirror, definition: Array("{\"b\":1}".utf8))
            #expect(try isAnnounced())
            let changed = try #require(try connection.mirrors().first)
            #expect(changed.definition == Array("{\"b\":1}".utf8))
            revisions.append(changed.revision)
            #expect(Set(revisions).count == 4)
            try connection.removeMirror(record.id, mirror)
            #expect(try isAnnounced())
            #expect(try connection.mirrors().isEmpty)
        }
    }

    @Test func oneNamespacesMirrorIsNotAnothers() throws {
        try withSession { connection in
            let (one, two) = (try connection.make("one"), try connection.make("two"))
            let mirror = try connection.addMirror(one.id, name: "m", definition: definition, target: nil)
            try connection.setMirrorPaused(two.id, mirror, true)
            try connection.removeMirror(two.id, mirror)
            #expect(try connection.mirrors().map(\.isPaused) == [false])
        }
    }

    @Test func theInstallationHasAName() throws {
        try withDatabase { url in
            let (one, two) = (try LogConnection(url), try LogConnection(url))
            defer {
                one.close()
                two.close()
            }
            let name = try one.installation()
            #expect(try two.installation() == name)
            #expect(name.utf8.count == 36)
        }
    }

    // MARK: Runs

    private func run(_ namespace: Int64, _ mirror: [UInt8], trouble: String? = nil, retry: Int64? = nil) -> MirrorRun {
        MirrorRun(
            namespace: namespace, mirror: mirror, trouble: trouble, seq: 3, errors: nil, unkeptErrors: nil,
            retryMilliseconds: retry)
    }

    private func stored(_ connection: LogConnection) throws -> [String] {
        let rows = try connection.sql.execute(
            """
            select state, coalesce(message, '-'), gateway, coalesce(seq, -1), coalesce(error_count, -1),
                coalesce(unkept_errors, -1), retry_at > now() + interval '50 seconds', retry_at is null
            from pathmirror.mirror_run order by gateway
            """)
        return try (0..<rows.rowCount).map { row in
            let numbers = try (3...5).map { "\(try rows.int64(row, $0))" }.joined(separator: " ")
            let retry = try rows.bool(row, 7) ? "never" : try rows.bool(row, 6) ? "later" : "soon"
            return try (0...2).map { try rows.string(row, $0) }.joined(separator: " ") + " \(numbers) \(retry)"
        }
    }

    @Test func aReportReplacesTheOneBefore() throws {
        try withSession { connection in
            let record = try connection.make()
            let mirror = try connection.addMirror(record.id, name: "m", definition: definition, target: "env:DB")
            try connection.reportMirrors([run(record.id, mirror)], gateway: "g1")
            #expect(try stored(connection) == ["running - g1 3 -1 -1 never"])
            try connection.reportMirrors([run(record.id, mirror, trouble: "no", retry: 60_000)], gateway: "g2")
            #expect(try stored(connection) == ["broken no g2 3 -1 -1 later"])
            try connection.reportMirrors(
                [
                    MirrorRun(
                        namespace: record.id, mirror: mirror, trouble: nil, seq: 9, errors: 4, unkeptErrors: 5,
                        retryMilliseconds: 1)
                ], gateway: "g2")
            #expect(try stored(connection) == ["running - g2 9 4 5 soon"])
            try connection.reportMirrors([], gateway: "g3")
            #expect(try stored(connection).count == 1)
            try connection.removeMirror(record.id, mirror)
            #expect(try stored(connection).isEmpty)
        }
    }

    /// Checks that a gateway that cannot reach a mirror's database reports this only while no other gateway runs the
    /// mirror.
    @Test func theRunnerOfAMirrorKnowsBetter() throws {
        try withSession { connection in
            let record = try connection.make()
            let mirror = try connection.addMirror(record.id, name: "m", definition: definition, target: "env:DB")
            func outOfReach(_ gateway: String) throws {
                try connection.reportMirrorOutOfReach(
                    record.id, mirror, message: "gone", gateway: gateway, retryMilliseconds: 60_000)
            }
            try outOfReach("g1")
            #expect(try stored(connection) == ["broken gone g1 -1 -1 -1 later"])
            try outOfReach("g2")
            #expect(try stored(connection) == ["broken gone g2 -1 -1 -1 later"], "it was broken anyway")
            try connection.reportMirrors([run(record.id, mirror)], gateway: "g1")
            try outOfReach("g2")
            #expect(try stored(connection) == ["running - g1 3 -1 -1 never"], "g1 runs it")
            try outOfReach("g1")
            #expect(try stored(connection) == ["broken gone g1 3 -1 -1 later"], "it has lost it itself")
            try connection.reportMirrors([run(record.id, mirror)], gateway: "g1")
            try connection.sql.executeScript(
                "update pathmirror.mirror_run set reported_at = now() - interval '31 seconds'")
            try outOfReach("g2")
            #expect(try stored(connection) == ["broken gone g2 3 -1 -1 later"], "nobody has reported for long")
        }
    }

    @Test func statusesReportCursorAndLag() throws {
        try withSession { connection in
            let record = try connection.make()
            var writer = BatchWriter(record)
            for number in 0..<5 as Range<Int64> { _ = try connection.commit(writer.set("a", .int(number))) }
            let definition = Array("{\"schema\":\"mirror\",\"table\":\"t\"}".utf8)
            let mirror = try connection.addMirror(record.id, name: "m", definition: definition, target: nil)
            let bare = try #require(try connection.mirrorStatuses().first)
            #expect(bare.name == "m" && bare.namespace == "test" && bare.head == 5)
            #expect(bare.seq == nil)
            #expect(!bare.isElsewhere)
            try MirrorCursors.put(
                connection.sql, record.id,
                MirrorCursorRecord(mirror: mirror, position: LogPosition(seq: 3), generation: 1, definition: definition)
            )
            let status = try #require(try connection.mirrorStatuses().first)
            #expect(status.seq == 3)
            #expect(status.lagEntries == 2)
            #expect(status.errors == 0)
        }
    }
}
