import Engine
import LogStore
import Placement
import Runtime
import TestSupport
import Testing

/// Tests of the router in front of several databases.
@Suite struct DatabasesTests {
    @Test func namespacesAreFoundInTheirDatabases() throws {
        try withDatabase { primaryURL in
            try withDatabase { otherURL in
                let connection = try LogConnection(primaryURL)
                defer { connection.close() }
                let map = PlacementMap()
                let primary = try TestEngine(primaryURL)
                defer { primary.stop() }
                let databases = Databases(primary: primary.engine, map: map)
                try connection.addDatabase(
                    DatabaseRecord(
                        name: "b", host: "h", port: nil, databaseName: "x",
                        installation: "00000000-0000-0000-0000-000000000001"))
                try connection.setPlacement("away", in: "b")
                try map.look(connection, isNew: true)

                // The namespace is placed in a database for which there are no connection settings yet.
                #expect(databases.member(of: "away") == nil && databases.liveNamespace("away") == nil)
                #expect(databases.member(of: "here")?.number == 0)
                let refusal = MutexBox(false)
                databases.withNamespace("away") { result in
                    if case .failure(.unavailable) = result { refusal.withLock { $0 = true } }
                }
                #expect(refusal.withLock { $0 })
                databases.await(["b"])
                #expect(databases.reachable.map(\.name) == ["home", "b"])
                #expect(databases.reachable.last?.isUp == false)

                let reported = MutexBox<[Int]>([])
                databases.forEachOther { member in reported.withLock { $0.append(member.number) } }
                let other = try TestEngine(otherURL) { settings, _ in
                    settings.database = 1
                    settings.databaseName = "b"
                }
                defer { other.stop() }
                #expect(databases.nextNumber == 1)
                databases.add(Databases.Member(number: 1, name: "b", engine: other.engine, feeds: nil))
                databases.await([])
                #expect(reported.withLock { $0 } == [1] && databases.nextNumber == 2)

                // The two databases use the same id for different namespaces.
                let here = try primary.namespace("here")
                let away = try other.namespace("away")
                #expect(here.id == away.id && here.key != away.key)
                #expect(databases.liveNamespace("away") === away && databases.liveNamespace("here") === here)
                #expect(databases.engine(of: away) === other.engine && databases.engine(of: here) === primary.engine)
                #expect(databases.memory.namespaces == 2)
            }
        }
    }

    /// Checks that a namespace that moves away and returns between two polls of the engine is loaded again: its data
    /// may differ.
    @Test func returnedNamespacesAreReloaded() throws {
        try withDatabase { primaryURL in
            try withDatabase { otherURL in
                let connection = try LogConnection(primaryURL)
                defer { connection.close() }
                let map = PlacementMap()
                let primary = try TestEngine(primaryURL)
                defer { primary.stop() }
                let databases = Databases(primary: primary.engine, map: map)
                let other = try TestEngine(otherURL) { settings, _ in settings.database = 1 }
                defer { other.stop() }
                databases.add(Databases.Member(number: 1, name: "b", engine: other.engine, feeds: nil))
                try connection.addDatabase(
                    DatabaseRecord(
                        name: "b", host: "h", port: nil, databaseName: "x",
                        installation: "00000000-0000-0000-0000-000000000001"))
                try connection.setPlacement("m", in: "b")
                try map.look(connection, isNew: true)
                let before = try other.namespace("m")
                #expect(databases.liveNamespace("m") === before)

                let elsewhere = try LogConnection(otherURL)
                defer { elsewhere.close() }
                #expect(try elsewhere.removeNamespace(before.id))
                try connection.setPlacement("m", in: nil)
                try map.look(connection, isNew: false)
                #expect(databases.liveNamespace("m") == nil)
                try connection.setPlacement("m", in: "b")
                try map.look(connection, isNew: false)
                #expect(databases.liveNamespace("m") == nil)
                let now = try other.namespace("m")
                #expect(now !== before && now.id != before.id && databases.liveNamespace("m") === now)
                #expect(eventually { before.hasEnded })

                // The placement changes twice between two polls. The engine cannot know whether the namespace was away,
                // so it compares.
                #expect(try elsewhere.removeNamespace(now.id))
                try connection.setPlacement("m", in: nil)
                try connection.setPlacement("m", in: "b")
                try map.look(connection, isNew: false)
                #expect(eventually { now.hasEnded })
                #expect(try other.namespace("m").id != now.id)
            }
        }
    }
}
