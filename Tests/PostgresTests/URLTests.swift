import Postgres
import Testing

/// Goal: a connection string is understood or refused, and never shows its password.
@Suite struct URLTests {
    @Test(arguments: [
        ("postgresql://me:hunter2@db.example:5433/shop?sslmode=require", "me@db.example:5433/shop"),
        ("postgres://me:hunter2@/shop?host=/run/pg", "me@/run/pg/shop"),
        ("host=a,b port=1,2 user=me password=hunter2 dbname=shop", "me@a,b:1,2/shop"),
        ("", "/"),
    ])
    func showsEverythingButThePassword(text: String, description: String) throws {
        let url = try PostgresURL(text)
        #expect(url.description == description)
        var dumped = ""
        dump(url, to: &dumped)
        #expect(!(dumped + String(reflecting: url) + "\(url)").contains("hunter2"))
    }

    @Test(arguments: [
        "postgresql://me:hunter2@[::1", "host=a hunter2", "postgres://me:hunter2%zz@host/db", "nonsense=hunter2",
        "postgres://me:hunt@hunter2@host/db", "postgres://me:hunter2/x@host/db", "postgres://h:port/db",
        "host=a port=99999", "postgres://me:1/hunter2@host/db", "host=a\0hunter2",
    ])
    func refusesWithoutRepeating(text: String) {
        let error = #expect(throws: PostgresError.self) { try PostgresURL(text) }
        #expect(error?.kind == .invalidURL)
        #expect(error.map { !"\($0)".contains("hunter2") } ?? false)
    }

    @Test func overrides() throws {
        let url = try TestDatabase.url().withApplicationName("a test").withDatabase("template1")
        #expect(url.databaseName == "template1")
        let result = try PostgresConnection(url).execute(
            "SELECT current_setting('application_name'), current_database()")
        #expect(try result.string(0, 0) == "a test")
        #expect(try result.string(0, 1) == "template1")
    }
}
