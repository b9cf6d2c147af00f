import Crypto
import Feeds
import LogStore
import Runtime
import Tokens

/// Creates tokens for services and tests.
struct TokenMintCommand: Command {
    static let specification = CommandSpecification(
        "token mint", "creates a token that a gateway with the same secret (or key) accepts",
        options: [
            .init("uid", "ID", "the user's id; rules see it as auth.uid"),
            .init("claims", "JSON", "an object; rules see it as auth.token"),
            .init("admin", nil, "an administrator's token: rules do not apply"),
            .init("data-only", nil, "with --admin: for data only, not for rules and settings"),
            .init(
                "feed", "NAME",
                "instead of a user: a token for consuming this feed and reading its part of the log; with a database it does not apply to a later feed of that name (docs/reference/feeds.md, \"Access\")"
            ),
            .init("ns", "NAME", "with --feed: the feed's namespace; default \"default\""),
            .init("expires-in", "TIME", "its lifetime, such as 90s, 15m, 24h or 7d; default 1h"),
            .init("secret-file", "FILE", "a secret of the gateway: an administrator's or a namespace's (first line)"),
            .init(
                "key-file", "FILE",
                "instead: an RSA private key (PEM), for an ID token like an identity provider's"),
            .init("key-id", "ID", "with --key-file: the key's name in the key set"),
            .init("project-id", "ID", "with --key-file: the project whose issuer and audience the token has"),
            .init("issuer", "TEXT", "with --key-file: 'iss'"), .init("audience", "TEXT", "with --key-file: 'aud'"),
            .init("unsigned", nil, "instead: an unsigned token, which 'pathmirror dev' accepts"), .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let now = Clock.unixMilliseconds / 1_000
        let end = now + (try TokenLife.seconds(arguments["expires-in"] ?? "1h"))
        let given = [arguments["secret-file"] != nil, arguments["key-file"] != nil, arguments.has("unsigned")]
        guard given.count(where: { $0 }) == 1 else {
            throw UsageError("one of --secret-file, --key-file and --unsigned is needed.")
        }
        let feed = try feed(arguments).map { try identified($0, arguments, console) }
        let token: String
        if let file = arguments["secret-file"] {
            let claims = try feed.map { ofFeed($0, now, end) } ?? custom(arguments, now, end)
            token = JWT.mint(claims, secret: try TokenFiles.secret(file))
        } else if let file = arguments["key-file"] {
            guard let id = arguments["key-id"] else { throw UsageError("--key-id is missing.") }
            token = try JWT.mint(
                try identity(arguments, now, end), key: try RSAPrivateKey(pem: try Files.read(file)), keyID: id)
        } else {
            token = JWT.mintUnsigned(try identity(arguments, now, end))
        }
        guard arguments.has("json") else { return console.write(token) }
        console.write(JSONOutput.object(["token": .text(token), "expiresAt": .number(end)]).line)
    }

    /// The feed that the token is bound to, if any.
    private static func feed(_ arguments: ParsedArguments) throws -> FeedBinding? {
        guard let name = arguments["feed"] else {
            // A gateway's container has PATHMIRROR_NS in its environment, for other commands.
            guard arguments.source("ns") != .commandLine else { throw UsageError("--ns needs --feed.") }
            return nil
        }
        guard arguments["secret-file"] != nil else { throw UsageError("--feed needs --secret-file.") }
        let others = arguments["uid"] != nil || arguments["claims"] != nil || arguments.has("admin")
        guard !others, !arguments.has("data-only") else {
            throw UsageError("A token with --feed is for the feed only: no --uid, --claims, --admin or --data-only.")
        }
        guard let feed = FeedBinding(feed: name, namespace: arguments["ns"] ?? "default") else {
            throw UsageError(
                "--feed must have 1 to 63 letters, digits, _ and -, and --ns 1 to 64 of them.")
        }
        return feed
    }

    /// The feed with its id, if a database is given that has the feed.
    private static func identified(
        _ feed: FeedBinding, _ arguments: ParsedArguments, _ console: Console
    ) throws -> FeedBinding {
        guard try DatabaseLocator.givenURL(arguments) != nil || arguments["data"] != nil else { return feed }
        let name = FeedName(namespace: feed.namespace, name: feed.feed)
        return try FeedOptions.administer(arguments, console, "token mint", of: .of(feed.namespace)) {
            administration, _ in
            FeedBinding(feed: feed.feed, namespace: feed.namespace, id: try administration.feed(name).uid) ?? feed
        }
    }

    private static func ofFeed(_ feed: FeedBinding, _ now: Int64, _ end: Int64) -> Claims {
        var claims: Claims = ["v": 0, "iat": .integer(now), "exp": .integer(end)]
        feed.write(to: &claims)
        return claims
    }

    /// The format of Firebase's legacy tokens, which its libraries create as well.
    private static func custom(_ arguments: ParsedArguments, _ now: Int64, _ end: Int64) throws -> Claims {
        var claims: Claims = ["v": 0, "iat": .integer(now), "exp": .integer(end)]
        var data = Claims()
        if let uid = arguments["uid"] {
            data["uid"] = .string(uid)
            data["provider"] = "custom"
        }
        if let own = try own(arguments) { data["token"] = .object(own) }
        if arguments.has("admin") {
            claims["admin"] = true
            if arguments.has("data-only") { claims["scope"] = "data" }
        } else {
            guard arguments["uid"] != nil else { throw UsageError("--uid is missing (or --admin).") }
        }
        guard ClaimsWriter.encode(data).count <= 1_024 else {
            throw CommandFailure("The claims are too large: the limit is 1024 bytes, including the user's id.")
        }
        claims["d"] = .object(data)
        return claims
    }

    private static func identity(_ arguments: ParsedArguments, _ now: Int64, _ end: Int64) throws -> Claims {
        guard let uid = arguments["uid"] else { throw UsageError("--uid is missing.") }
        guard !arguments.has("admin") else { throw UsageError("--admin needs --secret-file.") }
        var claims = try own(arguments) ?? Claims()
        let project = arguments["project-id"]
        if let issuer = arguments["issuer"] ?? project.map({ "https://securetoken.google.com/\($0)" }) {
            claims["iss"] = .string(issuer)
        }
        if let audience = arguments["audience"] ?? project { claims["aud"] = .string(audience) }
        claims["sub"] = .string(uid)
        claims["user_id"] = .string(uid)
        claims["iat"] = .integer(now)
        claims["auth_time"] = .integer(now)
        claims["exp"] = .integer(end)
        if claims["firebase"] == nil { claims["firebase"] = .object(["sign_in_provider": "custom"]) }
        return claims
    }

    private static func own(_ arguments: ParsedArguments) throws -> Claims? {
        guard let text = arguments["claims"] else { return nil }
        do throws(JWTError) { return try ClaimsReader.object(Array(text.utf8)) } catch {
            throw UsageError("--claims must be a JSON object.")
        }
    }
}

/// Parses the lifetime of a token.
enum TokenLife {
    private static let longest: Int64 = 100 * 365 * 86_400

    static func seconds(_ text: String) throws -> Int64 {
        guard let seconds = TimeSpan.seconds(text), (1...longest).contains(seconds) else {
            throw UsageError("--expires-in must be a duration such as 90s, 15m, 24h or 7d.")
        }
        return seconds
    }
}

enum TokenFiles {
    /// Returns the first line of a file.
    static func secret(_ file: String) throws -> [UInt8] {
        let secret = Array(try Files.read(file, maxBytes: 64 * 1024).prefix { $0 != 0x0A && $0 != 0x0D })
        guard !secret.isEmpty else { throw CommandFailure("The first line of \(file) has no secret.") }
        return secret
    }
}
