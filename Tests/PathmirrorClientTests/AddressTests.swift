import Testing
import Tree

@testable import PathmirrorClient

@Suite struct AddressTests {
    @Test(arguments: [
        ("https://shop.example.com", "shop.example.com", 443, true, "shop", "/"),
        ("https://db.example.com/a/b%20c?ns=other", "db.example.com", 443, true, "other", "/a/b c"),
        ("https://db.example.com/a+b%2Bc", "db.example.com", 443, true, "db", "/a b+c"),
        ("http://localhost:9000", "localhost", 9000, false, "default", "/"),
        ("http://127.0.0.1:9000/?ns=x%2Dy", "127.0.0.1", 9000, false, "x-y", "/"),
        ("ws://[::1]:9000/a", "::1", 9000, false, "default", "/a"),
        ("example.com", "example.com", 443, true, "default", "/"),
    ])
    func urls(text: String, host: String, port: UInt16, isSecure: Bool, namespace: String, path: String) throws {
        let (address, parsedPath) = try DatabaseAddress.parse(text)
        #expect(address == DatabaseAddress(host: host, port: port, isSecure: isSecure, namespace: namespace))
        #expect(parsedPath.description == path)
        let (again, samePath) = try DatabaseAddress.parse(address.url(of: parsedPath))
        #expect(again == address)
        #expect(samePath == parsedPath)
    }

    @Test(arguments: [
        "", "https://", "ftp://a", "http://a:0", "http://a:99999", "http://u:p@h", "http://h/a.b", "http://h/%zz",
        "http://h?ns=", "http://h?ns=a.b", "http://h?ns=x%2Fy",
        "http://a b", "http://[::1:9000", "http://g:h:9000", "http://a\r\nb",
    ])
    func nonsense(text: String) {
        #expect(throws: InvalidArgument.self) { try DatabaseAddress.parse(text) }
    }

    /// The URL that configures a database must not contain a path.
    @Test func ofAWholeDatabase() throws {
        #expect(try DatabaseAddress.ofDatabase("http://h/?ns=shop").namespace == "shop")
        #expect(throws: InvalidArgument.self) { try DatabaseAddress.ofDatabase("http://h/users?ns=shop") }
    }

    /// Error messages may be shown to users: names, passwords and tokens are left out of them.
    @Test(arguments: [
        "ftp://user:hidden@h/a?auth=hidden", "http://user:hidden@h/a?auth=hidden#hidden", "http://h:0/a?auth=hidden",
        "http://a:hidden@b@c:0", "user:hidden@h",
    ])
    func messagesContainNoSecrets(url: String) {
        #expect {
            try DatabaseAddress.parse(url)
        } throws: { !"\($0)".contains("hidden") }
    }

    @Test(arguments: ["127.0.0.1", "localhost", "::1", "[::1]", "fe80::1%eth0", "my_host.example"])
    func hosts(host: String) { #expect(DatabaseAddress.isHost(DatabaseAddress.plain(host))) }

    @Test(arguments: ["", "a b", "localhost:9000", "http://localhost", "a/b", "[::1", "user@h", "a\r\nb"])
    func noHosts(host: String) { #expect(!DatabaseAddress.isHost(DatabaseAddress.plain(host))) }

    @Test func aPathByItsURL() async {
        await #expect(processExitsWith: .failure) {
            let app = PathmirrorApp.configure(url: "http://h:9000?ns=one", name: "exit")
            _ = Database.database(app: app).reference(fromURL: "http://h:9000/a?ns=two")
        }
        let database = TestDatabases.make(url: "http://h:9000?ns=one")
        #expect(database.reference(fromURL: "http://h:9000/a?ns=one") == database.reference(withPath: "a"))
        #expect(database.reference(fromURL: "http://h:9000/a") == database.reference(withPath: "a"))
    }
}
