import Crypto
import Runtime
import Tokens

/// Makes tokens for services and tests.
struct TokenMintCommand: Command {
    static let specification = CommandSpecification(
        "token mint", "makes a token that a gateway with the same secret (or key) believes",
        options: [
            .init("uid", "ID", "the user's id; rules see it as auth.uid"),
            .init("claims", "JSON", "an object; rules see it as auth.token"),
            .init("admin", nil, "an administrator's token: rules are not asked"),
            .init("data-only", nil, "with --admin: for data only, not for rules and settings"),
            .init("expires-in", "TIME", "its life, such as 90s, 15min, 24h or 7d; default 1h"),
            .init("secret-file", "FILE", "a secret of the gateway's: an administrator's or a namespace's (first line)"),
            .init(
                "key-file", "FILE",
                "instead: an RSA private key (PEM), for an ID token as an identity provider makes it"),
            .init("key-id", "ID", "with --key-file: the key's name in the key set"),
            .init("project-id", "ID", "with --key-file: whose issuer and audience it names"),
            .init("issuer", "TEXT", "with --key-file: 'iss'"), .init("audience", "TEXT", "with --key-file: 'aud'"),
            .init("unsigned", nil, "instead: signed by nobody, as 'pathmirror dev' takes it"), .json,
        ])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let now = Clock.unixMilliseconds / 1_000
        let end = now + (try Duration.seconds(arguments["expires-in"] ?? "1h"))
        let given = [arguments["secret-file"] != nil, arguments["key-file"] != nil, arguments.has("unsigned")]
        guard given.count(where: { $0 }) == 1 else {
            throw UsageError("one of --secret-file, --key-file and --unsigned is needed.")
        }
        let token: String
        if let file = arguments["secret-file"] {
            token = JWT.mint(try custom(arguments, now, end), secret: try TokenFiles.secret(file))
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

    /// The form of the original's legacy tokens, which its libraries make, too.
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
            throw CommandFailure("The claims are too large: with the user's id they may have 1024 bytes.")
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

/// Shows what is in a token, and whether a key has signed it.
struct TokenInspectCommand: Command {
    static let specification = CommandSpecification(
        "token inspect", "shows a token's claims; with a key, exits 1 unless it signed the token",
        positionals: ["TOKEN|-"],
        options: [
            .init("secret-file", "FILE", "a secret to check the signature with (first line)"),
            .init("certificate-file", "FILE", "an X.509 certificate (PEM) to check the signature with"), .json,
        ])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        var text = arguments.positionals[0]
        if text == "-" {
            text = String(decoding: try Files.read("-", maxBytes: 64 * 1024), as: UTF8.self)
            while text.last?.isWhitespace == true { text.removeLast() }
        }
        let token = try JWT(text)
        let isVerified = try verify(token, arguments)
        let now = Clock.unixMilliseconds / 1_000
        var problem: String?
        do throws(JWTError) { _ = try TokenTimes(token.claims, now: now, skew: 0) } catch {
            problem = error.description
        }
        let claims = ClaimsWriter.encode(token.claims)
        if arguments.has("json") {
            console.write(
                JSONOutput.object([
                    "algorithm": .text(token.algorithm.rawValue), "keyId": .init(token.keyID), "claims": .raw(claims),
                    "verified": isVerified.map(JSONOutput.bool) ?? .null, "problem": .init(problem),
                ]).line)
        } else {
            console.write("algorithm  \(token.algorithm.rawValue)" + (token.keyID.map { "\nkey        \($0)" } ?? ""))
            for member in token.claims.members {
                let value = String(decoding: ClaimsWriter.encode(member.value), as: UTF8.self)
                console.write("\(member.name)  \(value)\(time(member))")
            }
            if let problem { console.write(problem) }
            switch isVerified {
            case true?: console.write("The signature is good.")
            case false?: console.write("The signature is not by this key.")
            case nil: console.write("The signature was not checked.")
            }
        }
        guard isVerified != false else { throw CommandFailure("The token was not signed by this key.") }
    }

    private static func time(_ member: Claims.Member) -> String {
        guard ["iat", "exp", "nbf", "auth_time"].contains(member.name), case .integer(let seconds) = member.value,
            (0...253_402_300_799).contains(seconds)
        else { return "" }
        return "  (\(Timestamp.iso8601(unixMilliseconds: seconds * 1_000)))"
    }

    private static func verify(_ token: JWT, _ arguments: ParsedArguments) throws -> Bool? {
        if let file = arguments["secret-file"] {
            return (try? token.verify(withSecret: try TokenFiles.secret(file))) != nil
        }
        if let file = arguments["certificate-file"] {
            let key = try RSAPublicKey(certificatePEM: String(decoding: try Files.read(file), as: UTF8.self))
            return (try? token.verify(with: key)) != nil
        }
        return nil
    }
}

private enum TokenFiles {
    /// The first line of a file.
    static func secret(_ file: String) throws -> [UInt8] {
        let secret = Array(try Files.read(file, maxBytes: 64 * 1024).prefix { $0 != 0x0A && $0 != 0x0D })
        guard !secret.isEmpty else { throw CommandFailure("There is no secret in the first line of \(file).") }
        return secret
    }
}

/// Lengths of time on the command line.
private enum Duration {
    static func seconds(_ text: String) throws -> Int64 {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let factor: Int64? =
            switch text.dropFirst(digits.count) {
            case "", "s": 1
            case "min", "m": 60
            case "h": 3_600
            case "d": 86_400
            default: nil
            }
        guard let factor, let count = Int64(digits), count > 0, count <= 100 * 365 * 86_400 / factor else {
            throw UsageError("\(text) is no length of time, such as 90s, 15min, 24h or 7d.")
        }
        return count * factor
    }
}
