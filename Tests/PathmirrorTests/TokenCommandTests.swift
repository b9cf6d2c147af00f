import Crypto
import Runtime
import TestSupport
import Testing
import Tokens

@testable import pathmirror

/// Checks that gateways accept the created tokens, and that tokens are shown unchanged.
@Suite struct TokenCommandTests {
    private let folder: ScratchFolder
    private let secret: String
    private let key: String
    private let certificate: String

    init() throws {
        folder = try ScratchFolder()
        secret = try folder.file("secret", String(repeating: "s", count: 40) + "\nanother line\n")
        key = try folder.file("key.pem", TestCertificates.rsaKey)
        certificate = try folder.file("certificate.pem", TestCertificates.rsaCertificate)
    }

    private func mint(_ arguments: String...) throws -> String {
        let run = try pathmirror(["token", "mint"] + arguments)
        #expect(run.exitCode == 0, "\(run.errors)")
        #expect(run.lines.count == 1)
        return try #require(run.lines.first)
    }

    private func inspect(_ token: String, _ arguments: String...) throws -> JSONText {
        let run = try pathmirror(["token", "inspect", token, "--json"] + arguments)
        #expect(run.exitCode == 0, "\(run.errors)")
        return try #require(try run.json().first)
    }

    @Test func bySecret() throws {
        let before = Int(Clock.unixMilliseconds / 1_000)
        let token = try mint("--secret-file", secret, "--uid", "ada", "--claims", #"{"role":"editor","n":[1,2]}"#)
        let shown = try inspect(token, "--secret-file", secret)
        #expect(
            shown["algorithm"] == "HS256" && shown["verified"] == true && shown["problem"] == .null
                && shown["keyId"] == .null)
        let claims = try #require(shown["claims"])
        #expect(claims["v"] == 0)
        #expect(claims["d"] == ["uid": "ada", "provider": "custom", "token": ["role": "editor", "n": [1, 2]]])
        let (issued, expires) = (try #require(claims["iat"]?.int), try #require(claims["exp"]?.int))
        #expect(issued >= before && issued <= before + 60)
        #expect(expires == issued + 3_600)
        #expect(claims.names == ["v", "iat", "exp", "d"])
        // Only the first line signs, as a gateway reads it.
        let first = try folder.file("first", String(repeating: "s", count: 40))
        #expect(try inspect(token, "--secret-file", first)["verified"] == true)
    }

    @Test func ofAdministrators() throws {
        let claims = try #require(try inspect(mint("--secret-file", secret, "--admin"))["claims"])
        #expect(claims["admin"] == true && claims["scope"] == nil && claims["d"] == [:])
        let narrow = try #require(
            try inspect(mint("--secret-file", secret, "--admin", "--data-only", "--uid", "ops"))["claims"])
        #expect(narrow["admin"] == true && narrow["scope"] == "data" && narrow["d"]?["uid"] == "ops")
    }

    @Test func ofFeeds() throws {
        let claims = try #require(try inspect(mint("--secret-file", secret, "--feed", "orders"))["claims"])
        #expect(claims.names == ["v", "iat", "exp", "feed", "ns"])
        #expect(claims["feed"] == "orders" && claims["ns"] == "default")
        let elsewhere = try #require(
            try inspect(mint("--secret-file", secret, "--feed", "a_B-9", "--ns", "shop"))["claims"])
        #expect(elsewhere["feed"] == "a_B-9" && elsewhere["ns"] == "shop")
    }

    /// The environment of a gateway contains its namespace.
    @Test func namespacesThatAreNotMeant() throws {
        let words = ["token", "mint", "--secret-file", secret, "--uid", "ada"]
        #expect(try pathmirror(words, environment: ["PATHMIRROR_NS": "shop"]).exitCode == 0)
        let refused = try pathmirror(words + ["--ns", "shop"])
        #expect(refused.exitCode == 2 && refused.errors.contains("--ns needs --feed."))
    }

    @Test func byKey() throws {
        let token = try mint(
            "--key-file", key, "--key-id", "k1", "--project-id", "p", "--uid", "ada", "--expires-in", "90s")
        let shown = try inspect(token, "--certificate-file", certificate)
        #expect(shown["algorithm"] == "RS256" && shown["keyId"] == "k1" && shown["verified"] == true)
        let claims = try #require(shown["claims"])
        #expect(claims["iss"] == "https://securetoken.google.com/p" && claims["aud"] == "p")
        #expect(claims["sub"] == "ada" && claims["user_id"] == "ada")
        #expect(claims["firebase"] == ["sign_in_provider": "custom"])
        #expect(claims["auth_time"] == claims["iat"])
        #expect((claims["exp"]?.int ?? 0) - (claims["iat"]?.int ?? 0) == 90)
        let other = try #require(
            try inspect(
                mint(
                    "--key-file", key, "--key-id", "k", "--issuer", "i", "--audience", "a", "--uid", "u", "--claims",
                    #"{"firebase":{"sign_in_provider":"password"},"email":"a@b"}"#))["claims"])
        #expect(other["iss"] == "i" && other["aud"] == "a" && other["email"] == "a@b")
        #expect(other["firebase"] == ["sign_in_provider": "password"])
    }

    @Test func unsigned() throws {
        let shown = try inspect(mint("--unsigned", "--uid", "ada"))
        #expect(shown["algorithm"] == "none" && shown["verified"] == .null)
        #expect(shown["claims"]?["sub"] == "ada" && shown["claims"]?["iss"] == nil)
    }

    @Test func forPrograms() throws {
        let run = try pathmirror(["token", "mint", "--unsigned", "--uid", "ada", "--expires-in", "7d", "--json"])
        let answer = try #require(try run.json().first)
        let token = try #require(answer["token"]?.string)
        #expect(try inspect(token)["claims"]?["exp"] == answer["expiresAt"])
    }

    @Test(arguments: [
        ("90s", 90), ("15m", 900), ("1w", 604_800), ("24h", 86_400), ("7d", 604_800), ("1s", 1),
        ("36500d", 3_153_600_000),
    ]) func lives(_ text: String, _ seconds: Int64) throws {
        #expect(try TokenLife.seconds(text) == seconds)
    }

    @Test(arguments: [
        "", "0", "90", "0s", "-1s", "s", "1.5h", "500ms", "15min", "1 h", "h1", "36501d", "99999999999999999999", "٣h",
        "1H",
    ])
    func livesThatAreNone(_ text: String) throws {
        let error = #expect(throws: UsageError.self) { try TokenLife.seconds(text) }
        #expect(error?.message == "--expires-in must be a duration such as 90s, 15m, 24h or 7d.")
        let run = try pathmirror(["token", "mint", "--unsigned", "--uid", "a", "--expires-in=\(text)"])
        #expect(run.exitCode == 2 && run.output.isEmpty)
    }

    @Test(arguments: [
        ["--secret-file", "S", "--unsigned", "--uid", "a"], ["--secret-file", "S", "--key-file", "K", "--uid", "a"],
        ["--uid", "a"],
        ["--secret-file", "S"], ["--unsigned"], ["--key-file", "K", "--uid", "a"],
        ["--unsigned", "--uid", "a", "--admin"],
        ["--unsigned", "--uid", "a", "--claims", "[]"], ["--unsigned", "--uid", "a", "--claims", "nonsense"],
        ["--secret-file", "S", "--uid", "a", "--claims", "5"],
        ["--secret-file", "S", "--feed", ""], ["--secret-file", "S", "--feed", "a.b"],
        ["--secret-file", "S", "--feed", "f", "--ns", "a/b"], ["--secret-file", "S", "--uid", "a", "--ns", "n"],
        ["--secret-file", "S", "--feed", "f", "--uid", "a"], ["--secret-file", "S", "--feed", "f", "--admin"],
        ["--secret-file", "S", "--feed", "f", "--data-only"], ["--secret-file", "S", "--feed", "f", "--claims", "{}"],
        ["--unsigned", "--feed", "f"], ["--key-file", "K", "--key-id", "k", "--feed", "f"],
    ]) func usage(_ arguments: [String]) throws {
        let named = arguments.map { $0 == "S" ? secret : $0 == "K" ? key : $0 }
        let run = try pathmirror(["token", "mint"] + named)
        #expect(run.exitCode == 2, "\(run.errors)")
        #expect(run.output.isEmpty)
    }

    @Test func filesThatAreNone() throws {
        let empty = try folder.file("empty", "\nsecret in the second line\n")
        let run = try pathmirror(["token", "mint", "--secret-file", empty, "--uid", "a"])
        #expect(run.exitCode == 1)
        #expect(run.errors == "pathmirror: The first line of \(empty) has no secret.\n")
        for arguments in [
            ["token", "mint", "--secret-file", "/nowhere", "--uid", "a"],
            ["token", "mint", "--key-file", "/nowhere", "--key-id", "k", "--uid", "a"],
            ["token", "mint", "--key-file", secret, "--key-id", "k", "--uid", "a"],
        ] {
            let run = try pathmirror(arguments)
            #expect(run.exitCode == 1 && run.output.isEmpty)
            #expect(!run.errors.contains("ssss"))
        }
    }

    /// The limit of Firebase's tokens.
    @Test func claimsThatAreTooLarge() throws {
        let room = 1_024 - #"{"uid":"a","provider":"custom","token":{"x":""}}"#.utf8.count
        for (count, code) in [(room, 0), (room + 1, 1)] as [(Int, Int32)] {
            let claims = "{\"x\":\"\(String(repeating: "y", count: count))\"}"
            let run = try pathmirror(["token", "mint", "--secret-file", secret, "--uid", "a", "--claims", claims])
            #expect(run.exitCode == code, "\(run.errors)")
            if code == 1 { #expect(run.errors.contains("the limit is 1024 bytes")) }
        }
    }

    @Test func inspectingForPeople() throws {
        let token = try mint("--secret-file", secret, "--uid", "ada")
        let good = try pathmirror(["token", "inspect", token, "--secret-file", secret])
        #expect(good.exitCode == 0)
        #expect(good.lines.first == "algorithm  HS256")
        #expect(good.lines.last == "The signature is good.")
        #expect(good.lines.contains { $0.hasPrefix("iat  ") && $0.hasSuffix("Z)") })
        let plain = try pathmirror(["token", "inspect", token])
        #expect(plain.lines.last == "The signature was not checked.")
        // From a pipe, with the line end at its end.
        let piped = try pathmirror(["token", "inspect", "-"], input: token + "\n")
        #expect(piped.output == plain.output)
    }

    @Test func anotherKey() throws {
        let other = try folder.file("other", String(repeating: "o", count: 40))
        let token = try mint("--secret-file", secret, "--uid", "ada")
        for arguments in [["--secret-file", other], ["--certificate-file", certificate]] {
            let run = try pathmirror(["token", "inspect", token] + arguments)
            #expect(run.exitCode == 1)
            #expect(run.lines.last == "The signature is not valid for this key.")
            #expect(run.errors == "pathmirror: The token was not signed by this key.\n")
            let json = try pathmirror(["token", "inspect", token, "--json"] + arguments)
            #expect(json.exitCode == 1)
            #expect(try json.json().first?["verified"] == false)
        }
        // An unsigned token has no valid signature.
        let run = try pathmirror(["token", "inspect", mint("--unsigned", "--uid", "a"), "--secret-file", secret])
        #expect(run.exitCode == 1)
    }

    /// A token that was changed after it was signed is shown, but not trusted.
    @Test func aChangedToken() throws {
        let token = try mint("--secret-file", secret, "--uid", "ada")
        var parts = token.split(separator: ".").map(String.init)
        parts[1] = try mint("--secret-file", secret, "--uid", "eve").split(separator: ".").map(String.init)[1]
        let run = try pathmirror(["token", "inspect", parts.joined(separator: "."), "--secret-file", secret])
        #expect(run.exitCode == 1)
    }

    @Test(arguments: ["nonsense", "a.b", "a.b.c", "", "..", "e30.e30."]) func whatIsNoToken(_ text: String) throws {
        let run = try pathmirror(["token", "inspect", "--", text])
        #expect(run.exitCode == 1)
        #expect(run.output.isEmpty)
        #expect(run.errors.hasPrefix("pathmirror: "))
    }

    @Test func outOfDate() throws {
        let claims: Claims = ["sub": "a", "iat": 1_000, "exp": 2_000]
        let token = JWT.mintUnsigned(claims)
        let shown = try inspect(token)
        #expect(shown["problem"]?.string?.isEmpty == false)
        #expect(shown["claims"] == ["sub": "a", "iat": 1_000, "exp": 2_000])
        let run = try pathmirror(["token", "inspect", token])
        #expect(run.output.contains("exp  2000  (1970-01-01T00:33:20.000Z)"))
    }
}
