import Postgres
import TestSupport
import Testing

@testable import LogStore

/// Tests of the connections that one thread can close on behalf of others.
@Suite struct OpenConnectionsTests {
    private static func works(_ connection: PostgresConnection) -> Bool {
        do {
            _ = try connection.execute("select 1")
            return true
        } catch {
            return false
        }
    }

    @Test func allOrNone() throws {
        try withDatabase { url in
            let open = OpenConnections()
            let connections = try (0..<3).map { _ in try PostgresConnection(url) }
            defer { for one in connections { one.close() } }
            for one in connections.prefix(2) { open.add(one.cancelHandle) }
            #expect(connections.allSatisfy(Self.works))
            #expect(open.abandonAll() == 2)
            #expect(connections.map(Self.works) == [false, false, true])
        }
    }

    /// Checks that only silent connections are closed, not those that have received data since the given time.
    @Test func onlyTheSilentOnes() throws {
        try withDatabase { url in
            let open = OpenConnections()
            let connections = try (0..<2).map { _ in try PostgresConnection(url) }
            defer { for one in connections { one.close() } }
            for one in connections { open.add(one.cancelHandle) }
            #expect(open.abandonSilent(since: 0) == 0)
            let quiet = connections[0].cancelHandle.lastHeardMilliseconds
            #expect(
                eventually {
                    _ = Self.works(connections[1])
                    return connections[1].cancelHandle.lastHeardMilliseconds > quiet
                })
            #expect(open.abandonSilent(since: quiet + 1) == 1)
            #expect(connections.map(Self.works) == [false, true])
        }
    }

    /// Checks that closed connections need not be removed explicitly.
    @Test func whatIsGoneDoesNotCount() throws {
        try withDatabase { url in
            let open = OpenConnections()
            for _ in 0..<5 {
                let connection = try PostgresConnection(url)
                open.add(connection.cancelHandle)
                connection.close()
            }
            let last = try PostgresConnection(url)
            defer { last.close() }
            open.add(last.cancelHandle)
            #expect(open.abandonAll() <= 2)
            #expect(!Self.works(last))
        }
    }
}
