import Postgres
import Testing

/// Checks that a connection string is parsed or refused, and that its description never contains the password.
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

    /// Checks that several hosts select the one that accepts writes, unless the string says otherwise.
    @Test(arguments: [
        ("host=a,b", "host=a,b target_session_attrs=read-write"),
        ("hostaddr=127.0.0.1,127.0.0.2", "hostaddr=127.0.0.1,127.0.0.2 target_session_attrs=read-write"),
        ("host=a,b target_session_attrs=any", "host=a,b target_session_attrs=any"),
        ("host=a", "host=a"), ("dbname=x", "dbname=x"),
    ])
    func severalHostsMeanThePrimary(text: String, meant: String) throws {
        #expect(try PostgresURL(text).requiringPrimary == PostgresURL(meant))
    }

    @Test func eachHostAlone() throws {
        let url = try PostgresURL("host=a,b,a port=1,2,1 user=me")
        #expect(try url.eachHost == [PostgresURL("host=a port=1 user=me"), PostgresURL("host=b port=2 user=me")])
        let one = try PostgresURL("host=a,b port=5 target_session_attrs=prefer-standby")
        #expect(one.eachHost.map(\.description) == ["a:5/", "b:5/", "a:5/", "b:5/"], "standbys first, then anybody")
        #expect(try PostgresURL("dbname=x").eachHost == [PostgresURL("dbname=x")])
    }
}
