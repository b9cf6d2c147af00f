import Glibc
public import LogStore
public import Postgres
import PostgresCluster
import Synchronization

/// A database of one test's own.
public enum TestDatabase {
    private static let count = Atomic<Int>(0)
    private static let template: Result<String, any Error> = Result { try makeTemplate() }

    /// Runs `body` with a new database that has the schema, and drops it afterwards.
    public static func with<Value>(_ body: (PostgresURL) throws -> Value) throws -> Value {
        try with(copyOf: template.get(), body)
    }

    /// The same without the schema.
    public static func withEmpty<Value>(_ body: (PostgresURL) throws -> Value) throws -> Value {
        try with(copyOf: "template0", body)
    }

    /// Files are copied as they are, which costs less than writing all of it through the log.
    private static func with<Value>(copyOf original: String, _ body: (PostgresURL) throws -> Value) throws -> Value {
        let name = "test_\(count.wrappingAdd(1, ordering: .relaxed).newValue)"
        try TestCluster.administrator().executeScript("create database \(name) template \(original) strategy file_copy")
        defer {
            // What is left of its connections must not keep it.
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

/// A migrated database with a session on it; dropped afterwards.
public func withDatabase<Value>(_ body: (PostgresURL) throws -> Value) throws -> Value {
    try TestDatabase.with(body)
}

/// A session of the log store on a new database.
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
