import Gateway
import HTTPClient

/// The options about authentication.
struct AuthenticationOptions {
    static let options: [OptionSpecification] =
        [
            .init(
                "admin-secret-file", "FILE",
                "file with administrator secrets, one per line; valid in all namespaces; reloaded on change"
            ),
            .init(
                "database-secret-file", "[NAME=]FILE[,…]",
                "file with secrets of a namespace, one per line, for its administrators and for signing custom tokens; a FILE without NAME is JSON with those of many: {\"namespace\": [\"secret\", …], …}"
            ),
            .init("project-id", "ID", "accepts the ID tokens of this Firebase project"),
            .init("issuer", "TEXT", "accepts ID tokens of this issuer ('iss'); with --audience and --jwks-url"),
            .init("audience", "TEXT", "the required audience ('aud') of ID tokens"),
            .init("jwks-url", "URL", "the issuer's keys: a JWK set, or certificates by key id"),
            .init(
                "jwks-ca-file", "FILE", "certificate authorities (PEM) to trust for --jwks-url instead of the system's"),
            .init("clock-skew", "TIME", "the allowed clock difference to issuers; default 30s"),
        ] + SecretFile.options

    /// The credentials at the start. `secretFiles` may provide other secrets later.
    let credentials: Gateway.Credentials
    let secretFiles: SecretFiles
    let warnings: [SecretFile.Warning]
    /// The client that fetches keys. Must be stopped last.
    let client: HTTPClient?

    private static let projectKeys =
        "https://www.googleapis.com/robot/v1/metadata/x509/securetoken@system.gserviceaccount.com"

    init(_ arguments: ParsedArguments) throws {
        secretFiles = try SecretFiles(arguments)
        var credentials = Gateway.Credentials()
        let secrets = try secretFiles.load()
        warnings = secrets.warnings
        credentials.administratorSecrets = secrets.administrators
        credentials.databaseSecrets = secrets.databases
        credentials.clockSkewSeconds = try Self.clockSkew(arguments)
        client = try Self.takeIDTokens(arguments, &credentials)
        self.credentials = credentials
    }

    /// In seconds, the unit of times in tokens; rounded up.
    private static func clockSkew(_ arguments: ParsedArguments) throws -> Int64 {
        ((try arguments.duration("clock-skew", in: 0...3_600_000) ?? 30_000) + 999) / 1_000
    }

    private static func takeIDTokens(
        _ arguments: ParsedArguments, _ credentials: inout Gateway.Credentials
    ) throws -> HTTPClient? {
        let project = arguments["project-id"]
        let issuer = arguments["issuer"] ?? project.map { "https://securetoken.google.com/\($0)" }
        let audience = arguments["audience"] ?? project
        let url = arguments["jwks-url"] ?? project.map { _ in projectKeys }
        guard issuer != nil || audience != nil || url != nil else { return nil }
        guard let issuer, let audience, let url else {
            throw UsageError("ID tokens need --project-id, or all of --issuer, --audience and --jwks-url.")
        }
        guard !issuer.isEmpty, !audience.isEmpty else { throw UsageError("--issuer and --audience must not be empty.") }
        guard url.lowercased().hasPrefix("https://") || IDTokenSettings.isLoopback(url) else {
            throw UsageError(
                "--jwks-url must be an https: address: an attacker on the network could replace the keys.")
        }
        var settings = HTTPClient.Settings()
        settings.userAgent = "pathmirror/\(VersionCommand.version)"
        if let file = arguments["jwks-ca-file"] {
            _ = try Files.read(file)
            settings.certificateAuthoritiesFile = file
        }
        let client = try HTTPClient(settings)
        credentials.idTokens = IDTokenSettings(issuer: issuer, audience: audience, keySetURL: url, client: client)
        return client
    }
}
