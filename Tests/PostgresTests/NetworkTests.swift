import Postgres
import Testing

/// Tests of the servers that are trusted without a verified identity.
@Suite struct NetworkTests {
    static func unverified(_ text: String, _ defaults: [String: String] = [:]) throws -> [String] {
        try PostgresURL(text).unverifiedHosts(defaults: defaults)
    }

    @Test(arguments: [
        "", "dbname=shop", "host=/run/postgresql", "postgresql:///shop?host=/run/pg",
        "host=localhost",
        "host=LOCALHOST", "host=db.localhost", "host=127.0.0.1", "host=127.1.2.3 sslmode=disable", "host=::1",
        "postgresql://me:hunter2@[::1]:5433/shop", "host=::ffff:127.0.0.1", "host=db.example hostaddr=127.0.0.1",
        "host=db.example sslmode=verify-full", "host=db.example sslmode=verify-ca", "host=a,b,c sslmode=verify-full",
        "host=db.example sslrootcert=system",
    ]) func nothingToWarnOf(_ text: String) throws { #expect(try Self.unverified(text) == []) }

    @Test(arguments: [
        ("postgresql://me:hunter2@db.example/shop", ["db.example"]),
        ("postgresql://me:hunter2@db.example/shop?sslmode=require", ["db.example"]),
        ("host=db.example sslmode=prefer", ["db.example"]),
        ("host=db.example sslmode=disable", ["db.example"]),
        ("host=db.example sslmode=require sslrootcert=system", ["db.example"]),
        ("host=10.0.0.5", ["10.0.0.5"]),
        ("host=2001:db8::1", ["2001:db8::1"]),
        ("host=::", ["::"]),
        ("host=localhost hostaddr=10.0.0.5", ["localhost"]),
        ("hostaddr=10.0.0.5", ["10.0.0.5"]),
        ("host=localhost,a.example,/run/pg,b.example", ["a.example", "b.example"]),
        ("host=localhost.example", ["localhost.example"]),
        ("host=127.0.0.1.example", ["127.0.0.1.example"]),
    ]) func hostsToWarnOf(_ text: String, _ hosts: [String]) throws { #expect(try Self.unverified(text) == hosts) }

    @Test func whatTheEnvironmentSays() throws {
        #expect(try Self.unverified("dbname=shop", ["host": "db.example"]) == ["db.example"])
        #expect(try Self.unverified("dbname=shop", ["host": "db.example", "sslmode": "verify-full"]) == [])
        #expect(try Self.unverified("host=localhost", ["host": "db.example"]) == [])
        #expect(try Self.unverified("dbname=shop", ["host": "@abstract"]) == [])
        #expect(try Self.unverified("host=db.example sslmode=require", ["sslmode": "verify-full"]) == ["db.example"])
        #expect(try Self.unverified("host=db.example", ["sslrootcert": "system"]) == [])
        #expect(try PostgresURL("").sslMode(defaults: [:]) == "prefer")
        #expect(try PostgresURL("sslmode=require").sslMode(defaults: ["sslmode": "allow"]) == "require")
        let defaults = PostgresURL.libraryDefaults
        #expect(Set(defaults.keys).isSubset(of: ["host", "hostaddr", "sslmode", "sslrootcert"]))
    }
}
