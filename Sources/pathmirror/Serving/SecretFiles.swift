import Gateway
import Glibc
import Runtime
import Tokens

/// The files that secrets are in.
struct SecretFiles: Sendable {
    struct Secrets: Sendable {
        var administrators: [Secret<[UInt8]>] = []
        var databases: [String: [Secret<[UInt8]>]] = [:]
        /// What is to be said of their files.
        var warnings: [SecretFile.Warning] = []
    }

    private let file: SecretFile
    private let administrators: String?
    private let databases: [(namespace: String, file: String)]
    /// JSON files, each with the secrets of many namespaces.
    private let tables: [String]

    init(_ arguments: ParsedArguments) throws {
        file = SecretFile(arguments)
        administrators = arguments["admin-secret-file"]
        var databases: [(namespace: String, file: String)] = []
        var tables: [String] = []
        for part in (arguments["database-secret-file"] ?? "").split(separator: ",") {
            guard let equals = part.firstIndex(of: "=") else {
                tables.append(String(part))
                continue
            }
            guard equals > part.startIndex else {
                throw UsageError(
                    "--database-secret-file must be NAMESPACE=FILE, a JSON file of many namespaces, or several of these with commas."
                )
            }
            databases.append((String(part[..<equals]), String(part[part.index(after: equals)...])))
        }
        self.databases = databases
        self.tables = tables
    }

    var all: [String] { [administrators].compactMap { $0 } + tables + databases.map(\.file) }

    func load() throws -> Secrets {
        var secrets = Secrets()
        secrets.warnings = try all.compactMap(file.check)
        if let administrators { secrets.administrators = try Self.lines(of: administrators, leastBytes: 16) }
        for file in tables { secrets.databases.merge(try Self.table(file)) { $0 + $1 } }
        for (namespace, file) in databases {
            secrets.databases[namespace, default: []] += try Self.lines(of: file, leastBytes: 32)
        }
        return secrets
    }

    /// What changes when a file does.
    var stamp: [String] {
        all.map { path in
            var status = stat()
            guard stat(path, &status) == 0 else { return "none" }
            let modified = status.st_mtim
            let changed = status.st_ctim
            return
                "\(status.st_ino) \(status.st_size) \(modified.tv_sec).\(modified.tv_nsec) \(changed.tv_sec).\(changed.tv_nsec)"
        }
    }

    private static func lines(of file: String, leastBytes: Int) throws -> [Secret<[UInt8]>] {
        let isBreak = { (byte: UInt8) in byte == 0x0A || byte == 0x0D }
        let lines = try Files.read(file, maxBytes: 64 * 1024).split(whereSeparator: isBreak)
        guard !lines.isEmpty else { throw CommandFailure("There is no secret in \(file).") }
        return try lines.map { try secret(Array($0), file, leastBytes) }
    }

    /// `{"namespace": "secret"}` or `{"namespace": ["secret", …]}`.
    private static func table(_ file: String) throws -> [String: [Secret<[UInt8]>]] {
        let form = "\(file) must be a JSON object: namespace to secret, or to a list of secrets."
        guard let claims = try? ClaimsReader.object(try Files.read(file, maxBytes: 16 << 20)) else {
            throw CommandFailure(form)
        }
        var secrets: [String: [Secret<[UInt8]>]] = [:]
        for member in claims.members {
            let texts: [ClaimValue]
            if case .array(let several) = member.value { texts = several } else { texts = [member.value] }
            secrets[member.name] = try texts.map { value in
                guard let text = value.string else { throw CommandFailure(form) }
                return try secret(Array(text.utf8), file, 32)
            }
        }
        return secrets
    }

    private static func secret(_ text: [UInt8], _ file: String, _ leastBytes: Int) throws -> Secret<[UInt8]> {
        guard text.count >= leastBytes else {
            throw CommandFailure(
                "A secret in \(file) must have at least \(leastBytes) bytes: anybody could guess a shorter one.")
        }
        return Secret(text)
    }
}
