import Testing
import Wire

/// Tests of the form in requests for access tokens.
@Suite struct TokenRequestTests {
    private static let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"

    private func code(_ text: String) -> String {
        do throws(TokenRefusal) {
            return "assertion " + (try TokenRequest(Array(text.utf8)).assertion)
        } catch {
            return error.code
        }
    }

    @Test func formsOfLibraries() {
        #expect(code("\(Self.grant)&assertion=a.b-_.c") == "assertion a.b-_.c")
        #expect(code("assertion=a%2Eb&\(Self.grant)&scope=x+y") == "assertion a.b")
        #expect(code("grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=a") == "assertion a")
    }

    @Test(arguments: [
        "", "x", "{}", "\(grant)", "\(grant)&assertion=", "assertion=a", "\(grant)&assertion=a&assertion=a",
        "\(grant)&\(grant)&assertion=a", "\(grant)&assertion=%zz", "\(grant)&assertion=%FF",
    ])
    func otherBodies(text: String) { #expect(code(text) == "invalid_request") }

    @Test func otherGrants() {
        #expect(code("grant_type=password&username=a") == "unsupported_grant_type")
        #expect(code("grant_type=&assertion=a") == "unsupported_grant_type")
    }

    @Test func longBodiesAreNotParsed() {
        let most = TokenRequest.maxBytes - "\(Self.grant)&assertion=".utf8.count
        #expect(code("\(Self.grant)&assertion=" + String(repeating: "a", count: most)).hasPrefix("assertion a"))
        #expect(code("\(Self.grant)&assertion=" + String(repeating: "a", count: most + 1)) == "invalid_request")
    }
}
