import Testing

@testable import Gateway

/// Tests of small parts of the gateway, without a server.
@Suite struct PiecesTests {
    @Test func namespaceNames() {
        for name in ["a", "my-db_1", String(repeating: "x", count: 64)] { #expect(NamespaceName.isValid(name.utf8)) }
        for name in ["", "a.b", "a b", "é", "a/b", "a\0", String(repeating: "x", count: 65)] {
            #expect(!NamespaceName.isValid(name.utf8))
        }
    }
}
