import Testing
import Wire

@testable import Gateway

/// Tests of where a request's credential is found, and of values that do not count as credentials.
struct AccessShownCredentialTests {
    static func find(_ query: String, _ header: String? = nil) throws -> String? {
        ShownCredential.find(try RESTParameters(ArraySlice(query.utf8)), authorization: header)
    }

    @Test(
        arguments: [
            ("auth=a", nil, "a"),
            ("access_token=b", nil, "b"),
            ("", "Bearer c", "c"),
            ("", "bEARER c", "c"),
            ("", "Bearer   c", "c"),
            ("auth=a&access_token=b", "Bearer c", "a"),
            ("access_token=b", "Bearer c", "b"),
            // An empty value counts as missing.
            ("auth=&access_token=b", "Bearer c", "b"),
            ("auth=&access_token=", "Bearer c", "c"),
            ("auth", "Bearer c", "c"),
        ] as [(String, String?, String)])
    func whatIsFound(_ query: String, _ header: String?, _ expected: String) throws {
        #expect(try Self.find(query, header) == expected)
    }

    @Test(
        arguments: [
            ("", nil), ("auth=", nil), ("auth", nil), ("access_token=", nil), ("auth=&access_token=", nil),
            ("", "Bearer"),
            ("", "Bearer "), ("", "Bearer   "), ("auth=", "Bearer "), ("", ""), ("", "Basic YTpi"),
        ] as [(String, String?)])
    func whatIsNone(_ query: String, _ header: String?) throws {
        #expect(try Self.find(query, header) == nil)
    }

    @Test func aBlankIsWrongAndNotNothing() throws {
        #expect(try Self.find("auth=%20") == " ")
    }
}
