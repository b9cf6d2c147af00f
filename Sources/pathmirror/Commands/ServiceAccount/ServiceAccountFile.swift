import Crypto
import HTTPClient
import LogStore
import Runtime

/// A new key of a service account, and the account's file in the form of Google's console.
struct ServiceAccountFile {
    /// 40 hex digits, as Google's.
    let keyID: String
    let publicKey: [UInt8]
    private let privateKey: Secret<[UInt8]>

    /// Creates a key.
    init() throws(CryptoError) {
        var generator = SystemRandomNumberGenerator()
        keyID = Hex.encode((0..<20).map { _ in UInt8.random(in: 0...255, using: &generator) })
        let key = try RSAPrivateKey.generate()
        publicKey = try key.publicKeyDER()
        privateKey = Secret(try key.pem())
    }

    /// Returns a random identity of an account: a UUID.
    static func newUID() -> String {
        let digits = Hex.encode(Batch.makeID())
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { digits.dropFirst($0.lowerBound).prefix($0.count) }
            .joined(separator: "-")
    }

    /// Writes the file, before the database has its key: a file that can't be written must not cost an account its key.
    func write(name: String, uid: String, tokenURI: String, _ console: Console) throws {
        console.write(text(name: name, uid: uid, tokenURI: tokenURI))
        guard console.outputFailure == nil else {
            throw CommandFailure("The file can't be written. Nothing was changed.")
        }
    }

    /// Returns the file's text, with the private key.
    ///
    /// - Parameter uid: the account's identity.
    private func text(name: String, uid: String, tokenURI: String) -> String {
        let members: KeyValuePairs<String, String> = [
            "type": "service_account",
            // Google's libraries require a project.
            "project_id": "pathmirror", "private_key_id": keyID,
            "private_key": String(decoding: privateKey.revealed(), as: UTF8.self),
            "client_email": ServiceAccountRecord.email(of: name), "client_id": uid, "token_uri": tokenURI,
        ]
        let lines = members.map { "  \(JSONOutput.text($0.key).line): \(JSONOutput.text($0.value).line)" }
        return "{\n\(lines.joined(separator: ",\n"))\n}"
    }
}

/// Functions shared by the commands about service accounts.
enum ServiceAccountOptions {
    /// The name that the first argument gives.
    static func name(_ arguments: ParsedArguments) throws -> String {
        let name = arguments.positionals[0]
        guard ServiceAccountGrant.isName(name) else {
            throw UsageError(
                "\"\(name)\" is not a valid name of a service account: use 1 to 63 of a to z, 0 to 9 and -, and begin with a letter."
            )
        }
        return name
    }

    /// The rights that the options give.
    static func grant(_ arguments: ParsedArguments) throws -> ServiceAccountGrant {
        guard let role = ServiceAccountGrant.Role(rawValue: arguments["role"] ?? "admin") else {
            throw UsageError("--role must be admin or viewer.")
        }
        let namespaces = try arguments["ns"].map { text throws in
            var seen: Set<String> = []
            return try text.split(separator: ",").map { try NamespaceOptions.checked(ConfigurationFile.trimmed($0)) }
                .filter { seen.insert($0).inserted }
        }
        guard namespaces?.isEmpty != true else { throw UsageError("--ns names no namespace.") }
        return ServiceAccountGrant(name: try name(arguments), role: role, namespaces: namespaces)
    }

    /// The address of the token endpoint at the gateway that `--gateway` names.
    static func tokenURI(_ arguments: ParsedArguments) throws -> String {
        var text = arguments["gateway"] ?? "http://127.0.0.1:9000"
        if text.hasSuffix("/") { text.removeLast() }
        let scheme = ["https://", "http://"].first { text.hasPrefix($0) }
        guard let scheme, case let host = text.dropFirst(scheme.count), (1...255).contains(host.utf8.count),
            host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && !"/?#,\\@\"'`$();".utf8.contains($0) }),
            ClientURL(text) != nil
        else { throw UsageError("--gateway must be the address of a gateway, such as https://db.example.com.") }
        return "\(text)/.oauth2/token"
    }

    static func open(
        _ arguments: ParsedArguments, _ console: Console, _ purpose: String
    ) throws -> LogConnection {
        try DatabaseLocator.open(try DatabaseLocator.primary(arguments), console, purpose)
    }

    static func unknown(_ name: String, _ records: [ServiceAccountRecord]) -> CommandFailure {
        let near = NearestWord.all(name, among: records.map(\.grant.name))
        return CommandFailure(
            "There is no service account \"\(name)\": see 'pathmirror service-account ls'.\(NearestWord.question(near))"
        )
    }

    /// The rights in words, such as `viewer of shop, blog`.
    static func words(_ grant: ServiceAccountGrant) -> String {
        "\(grant.role.rawValue) of \(grant.namespaces?.joined(separator: ", ") ?? "all namespaces")"
    }
}
