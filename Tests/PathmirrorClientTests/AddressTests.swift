import Testing
import Tree

@testable import PathmirrorClient

@Suite struct AddressTests {
    @Test(arguments: [
        ("https://shop.example.com", "shop.example.com", 443, true, "shop", "/"),
        ("https://db.example.com/a/b%20c?ns=other", "db.example.com", 443, true, "other", "/a/b c"),
        ("http://localhost:9000", "localhost", 9000, false, "default", "/"),
        ("http://127.0.0.1:9000/?ns=x%2Fy", "127.0.0.1", 9000, false, "x/y", "/"),
        ("ws://[::1]:9000/a", "::1", 9000, false, "default", "/a"),
        ("example.com", "example.com", 443, true, "default", "/"),
    ])
    func urls(text: String, host: String, port: UInt16, isSecure: Bool, namespace: String, path: String) throws {
        let (address, place) = try DatabaseAddress.parse(text)
        #expect(address == DatabaseAddress(host: host, port: port, isSecure: isSecure, namespace: namespace))
        #expect(place.description == path)
        let (again, samePlace) = try DatabaseAddress.parse(address.url(of: place))
        #expect(again == address)
        #expect(samePlace == place)
    }

    @Test(arguments: [
        "", "https://", "ftp://a", "http://a:0", "http://a:99999", "http://u:p@h", "http://h/a.b", "http://h/%zz",
    ])
    func nonsense(text: String) {
        #expect(throws: InvalidArgument.self) { try DatabaseAddress.parse(text) }
    }
}
