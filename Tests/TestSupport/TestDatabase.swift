import Glibc
public import LogStore
public import Postgres
import PostgresCluster
import Synchronization

/// A database for one test.
public enum TestDatabase {
    private static let count = Atomic<Int>(0)
    private static let template: Result<String, any Error> = Result { try makeTemplate() }

    /// Runs `body` with a new database that has the schema, and drops it afterwards.
    public static func with<Value>(_ body: (PostgresURL) throws -> Value) throws -> Value {
        try with(copyOf: template.get(), body)
    }

    /// Runs `body` with a new database without the schema, and drops it afterwards.
    public static func withEmpty<Value>(_ body: (PostgresURL) throws -> Value) throws -> Value {
        try with(copyOf: "template0", body)
    }

    /// Copies the template's files directly, which costs less than writing the whole copy to the WAL.
    private static func with<Value>(copyOf original: String, _ body: (PostgresURL) throws -> Value) throws -> Value {
        let name = "test_\(count.wrappingAdd(1, ordering: .relaxed).newValue)"
        try TestCluster.administrator().executeScript("create database \(name) template \(original) strategy file_copy")
        defer {
            // Remaining connections must not prevent the drop.
            try? TestCluster.administrator().executeScript("drop database if exists \(name) with (force)")
        }
        return try body(try TestCluster.cluster().url.withDatabase(name))
    }

    private static func makeTemplate() throws -> String {
        let name = "migrated"
        try TestCluster.administrator().executeScript("create database \(name) template template0")
        let connection = try PostgresConnection(try TestCluster.cluster().url.withDatabase(name))
        _ = try Migrations.up(connection)
        connection.close()
        return name
    }
}

/// Runs `body` with a new migrated database, and drops it afterwards.
public func withDatabase<Value>(_ body: (PostgresURL) throws -> Value) throws -> Value {
    try TestDatabase.with(body)
}

/// Runs `body` with a session of the log store on a new database.
public func withSession<Value>(
    _ change: (inout LogConnection.Settings) -> Void = { _ in }, _ body: (LogConnection) throws -> Value
) throws -> Value {
    var settings = LogConnection.Settings()
    change(&settings)
    return try withDatabase { url in
        let session = try LogConnection(url, settings: settings)
        defer { session.close() }
        return try body(session)
    }
}
