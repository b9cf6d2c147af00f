import Crypto
import Runtime
import Tokens

/// Shows the contents of a token, and whether a key has signed it.
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
            let input = try Files.read("-", maxBytes: 64 * 1024, standardInput: console.input)
            text = String(decoding: input, as: UTF8.self)
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
            case false?: console.write("The signature is not valid for this key.")
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
