import Gateway
import HTTPClient
import Runtime
import TestSupport
import Testing

@testable import pathmirror

/// Checks that the options determine the accepted credentials, and that incomplete options are rejected.
@Suite struct AuthenticationOptionsTests {
    private static func options(
        _ arguments: [String], _ environment: [String: String] = [:]
    ) throws -> AuthenticationOptions {
        try AuthenticationOptions(
            ParsedArguments(
                arguments, CommandSpecification("serve", "", options: AuthenticationOptions.options),
                Environment(values: environment)))
    }

    @Test func noTokenByDefault() throws {
        let options = try Self.options([])
        #expect(options.client == nil)
        #expect(options.credentials.idTokens == nil)
        #expect(options.credentials.administratorSecrets.isEmpty && options.credentials.databaseSecrets.isEmpty)
        #expect(!options.credentials.acceptsOwner && !options.credentials.acceptsUnsignedTokens)
        #expect(options.credentials.clockSkewSeconds == 30)
        #expect(options.warnings.isEmpty)
    }

    @Test func secrets() throws {
        let folder = try ScratchFolder()
        let secret = String(repeating: "s", count: 40)
        let path = try folder.file("secret", secret, mode: 0o640)
        let options = try Self.options(["--admin-secret-file", path, "--database-secret-file", "a=\(path)"])
        #expect(options.credentials.administratorSecrets.map { $0.revealed() } == [Array(secret.utf8)])
        #expect(options.credentials.databaseSecrets["a"]?.map { $0.revealed() } == [Array(secret.utf8)])
        #expect(options.warnings.map(\.file) == [path, path])
        #expect(options.secretFiles.all == [path, path])
    }

    struct Issuer: Sendable, CustomTestStringConvertible {
        let arguments: [String]
        let issuer: String
        let audience: String
        let url: String
        var testDescription: String { arguments.joined(separator: " ") }
    }

    private static let project =
        "https://www.googleapis.com/robot/v1/metadata/x509/securetoken@system.gserviceaccount.com"

    @Test(arguments: [
        Issuer(
            arguments: ["--project-id", "p"], issuer: "https://securetoken.google.com/p", audience: "p", url: project),
        Issuer(
            arguments: ["--issuer", "i", "--audience", "a", "--jwks-url", "https://keys.example/x"], issuer: "i",
            audience: "a", url: "https://keys.example/x"),
        // Each of a project's values can be replaced.
        Issuer(arguments: ["--project-id", "p", "--issuer", "i"], issuer: "i", audience: "p", url: project),
        Issuer(
            arguments: ["--project-id", "p", "--audience", "a"], issuer: "https://securetoken.google.com/p",
            audience: "a",
            url: project),
        Issuer(
            arguments: ["--project-id", "p", "--jwks-url", "http://127.0.0.1:8080/keys"],
            issuer: "https://securetoken.google.com/p", audience: "p", url: "http://127.0.0.1:8080/keys"),
        Issuer(
            arguments: ["--project-id", "p", "--jwks-url", "HTTPS://keys.example"],
            issuer: "https://securetoken.google.com/p", audience: "p", url: "HTTPS://keys.example"),
    ]) func issuers(_ expected: Issuer) throws {
        let options = try Self.options(expected.arguments)
        defer { options.client?.stop() }
        let tokens = try #require(options.credentials.idTokens)
        #expect(tokens.issuer == expected.issuer)
        #expect(tokens.audience == expected.audience)
        #expect(tokens.keySetURL == expected.url)
        #expect(options.client != nil)
    }

    private static let incomplete = "ID tokens need --project-id, or all of --issuer, --audience and --jwks-url."
    private static let unsafe =
        "--jwks-url must be an https: address: an attacker on the network could replace the keys."

    @Test(arguments: [
        (["--issuer", "i"], incomplete), (["--audience", "a"], incomplete), (["--jwks-url", "https://x"], incomplete),
        (["--issuer", "i", "--audience", "a"], incomplete), (["--issuer", "i", "--jwks-url", "https://x"], incomplete),
        (["--issuer", "", "--audience", "a", "--jwks-url", "https://x"], "--issuer and --audience must not be empty."),
        (["--issuer", "i", "--audience", "", "--jwks-url", "https://x"], "--issuer and --audience must not be empty."),
        (["--project-id", "p", "--jwks-url", "http://keys.example"], unsafe),
        (["--project-id", "p", "--jwks-url", "file:///etc/keys"], unsafe),
        (["--project-id", "p", "--jwks-url", ""], unsafe),
        (["--project-id", "p", "--jwks-url", "http://127.0.0.1.example/keys"], unsafe),
        (["--project-id", "p", "--jwks-url", "http://localhost@keys.example/"], unsafe),
        (["--clock-skew", "3601s"], "--clock-skew must be a duration such as 15s or 10m, from 0s to 1h."),
    ]) func mistakes(_ arguments: [String], _ message: String) {
        let error = #expect(throws: UsageError.self) { try Self.options(arguments) }
        #expect(error?.message == message)
    }

    @Test func authoritiesOfAFile() throws {
        let folder = try ScratchFolder()
        let file = try folder.file("ca.pem", TestCertificates.rsaCertificate)
        let options = try Self.options(["--project-id", "p", "--jwks-ca-file", file])
        options.client?.stop()
        let error = #expect(throws: CommandFailure.self) {
            try Self.options(["--project-id", "p", "--jwks-ca-file", folder.path + "/none"])
        }
        #expect(error?.description == "\(folder.path)/none can't be read: No such file or directory.")
    }
}

/// Checks the list of allowed origins, and the errors for invalid ones.
@Suite struct OriginOptionsTests {
    private static func read(_ arguments: [String]) throws -> [AllowedOrigin] {
        try OriginOptions.read(
            ParsedArguments(
                arguments, CommandSpecification("serve", "", options: OriginOptions.options), Environment(values: [:])))
    }

    @Test func origins() throws {
        let texts = ["http://app.test:3000", "https://*.app.example", "null"]
        let expected = try texts.map { try AllowedOrigin($0) }
        #expect(try Self.read([]).isEmpty)
        #expect(try Self.read(["--allow-origin", ""]).isEmpty)
        #expect(try Self.read(["--allow-origin", texts.joined(separator: ",")]) == expected)
        #expect(try Self.read(["--allow-origin", texts.joined(separator: " , ")]) == expected)
        #expect(try Self.read(texts.flatMap { ["--allow-origin", $0] }) == expected)
        #expect(try Self.read(["--allow-origin", "http://app.test:3000/"]) == [expected[0]])
    }

    @Test(arguments: [
        "*", "app.test", "http://", "http://a/b", "http://a,", ",", "https://*", "https://*.10.0.0.1", "ftp//x",
    ])
    func mistakes(_ text: String) {
        let error = #expect(throws: UsageError.self) { try Self.read(["--allow-origin", text]) }
        #expect(error?.message.hasPrefix("--allow-origin: \"") == true)
        #expect(error?.message.hasSuffix(".") == true)
    }
}
