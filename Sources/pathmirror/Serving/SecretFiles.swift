import Gateway
import Glibc
import Runtime
import Tokens

/// The files that contain secrets.
struct SecretFiles: Sendable {
    struct Secrets: Sendable {
        var administrators: [Secret<[UInt8]>] = []
        var databases: [String: [Secret<[UInt8]>]] = [:]
        /// Warnings about the files.
        var warnings: [SecretFile.Warning] = []
    }

    private let file: SecretFile
    private let administrators: String?
    private let databases: [(namespace: String, file: String)]
    /// JSON files, each with the secrets of several namespaces.
    private let tables: [String]

    init(_ arguments: ParsedArguments) throws {
        file = SecretFile(arguments)
        administrators = arguments["admin-secret-file"]
        var databases: [(namespace: String, file: String)] = []
        var tables: [String] = []
        for part in (arguments["database-secret-file"] ?? "").split(separator: ",") {
            // A namespace's name has no slash: "/run/a=b.json" is a file.
            guard let equals = part.firstIndex(of: "="), !part[..<equals].contains("/") else {
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

    /// A text that changes with each file.
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
        guard !lines.isEmpty else { throw CommandFailure("\(file) contains no secret.") }
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
                "A secret in \(file) is too short: it must have at least \(leastBytes) bytes, so that it can't be guessed."
            )
        }
        return Secret(text)
    }
}

/// Checks files of secrets before they are read.
struct SecretFile: Sendable {
    static let options: [OptionSpecification] = [
        .init(
            "strict-secrets", nil,
            "rejects files of secrets, and a --tls-key, that other users can read or change, instead of logging a warning"
        )
    ]

    /// A file that others can read, and how to change that.
    struct Warning: Sendable {
        let file: String
        let mode: String
        let fix: String

        func log(_ logger: Logger) {
            logger.warning(
                "other users can read or change a file of secrets", [("file", file), ("mode", mode), ("fix", fix)])
        }
    }

    private let isStrict: Bool
    /// The folder of systemd's credentials. Access lists protect these files, which their mode does not show.
    private let credentials: String?

    init(_ arguments: ParsedArguments) {
        isStrict = arguments.has("strict-secrets")
        credentials = arguments.environment["CREDENTIALS_DIRECTORY"].flatMap { $0.isEmpty ? nil : $0 + "/" }
    }

    /// - Throws: a message with the fix if the file can't be read, or if other users can read it and the options reject that.
    func check(_ path: String) throws -> Warning? {
        let user = geteuid()
        // Checks as the effective user: `access` checks the real user.
        let failure = faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0 ? 0 : errno
        let permissions = FilePermissions(ofFile: path)
        if failure == EACCES {
            guard let permissions else {
                throw CommandFailure(
                    "\(path) can't be read: uid \(user), as which this program runs, has no access to a folder above it. "
                        + "Grant access to that folder, or move the file.")
            }
            throw CommandFailure(
                "\(path) can't be read: it has mode \(permissions.modeText) and owner uid \(permissions.owner), but "
                    + "this program runs as uid \(user). Change the owner: chown \(user) \(path).")
        }
        // Other errors are reported by reading the file.
        guard failure == 0, let permissions, permissions.areForOthers else { return nil }
        if let credentials, path.hasPrefix(credentials) { return nil }
        let owned = "chmod 600 \(path)"
        let fix = permissions.owner == user || user == 0 ? owned : "chown \(user) \(path) && \(owned)"
        guard !isStrict else {
            throw CommandFailure(
                "\(path) contains secrets, and other users can read or change it (mode \(permissions.modeText)), which "
                    + "--strict-secrets forbids. Change the mode: \(fix).")
        }
        return Warning(file: path, mode: permissions.modeText, fix: fix)
    }
}

/// Reads the files again when they change, or on request. An invalid file changes nothing.
final class SecretWatch: Sendable {
    private struct State {
        var isStopping = false
        var isWanted = false
    }
    private let state: Condition<State>
    private let thread: Thread

    /// - Parameter replace: receives the new secrets, on the watch's thread.
    init(_ files: SecretFiles, _ logger: Logger, _ replace: @escaping @Sendable (SecretFiles.Secrets) -> Void) {
        let state = Condition(State())
        self.state = state
        let first = files.stamp
        thread = Thread(name: "secrets") {
            var stamp = first
            while true {
                let wake = state.wait(milliseconds: 1_000) { state -> State? in
                    guard state.isStopping || state.isWanted else { return nil }
                    defer { state.isWanted = false }
                    return state
                }
                if wake?.isStopping == true { return }
                let new = files.stamp
                guard new != stamp || wake != nil else { continue }
                stamp = new
                do {
                    let secrets = try files.load()
                    for warning in secrets.warnings { warning.log(logger) }
                    replace(secrets)
                    logger.notice("secrets read", [("files", files.all.joined(separator: ", "))])
                } catch {
                    logger.error("the secrets can't be read; the previous ones stay in use", [("error", "\(error)")])
                }
            }
        }
    }

    func reload() { state.signal { $0.isWanted = true } }

    func stop() {
        state.signal { $0.isStopping = true }
        thread.join()
    }
}
