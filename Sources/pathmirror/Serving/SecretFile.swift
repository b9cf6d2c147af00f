import Glibc
import Runtime

/// How files that hold secrets are looked at before they are read.
struct SecretFile: Sendable {
    static let options: [OptionSpecification] = [
        .init(
            "strict-secrets", nil,
            "refuses files of secrets, and a --tls-key, that others can read or change, instead of warning of them")
    ]

    /// A file that others can read, and how to change that.
    struct Warning: Sendable {
        let file: String
        let mode: String
        let fix: String

        func log(_ logger: Logger) {
            logger.warning(
                "others can read or change a file of secrets", [("file", file), ("mode", mode), ("fix", fix)])
        }
    }

    private let isStrict: Bool
    /// Where systemd puts what it shows to this service alone, by access lists of which the mode says nothing.
    private let credentials: String?

    init(_ arguments: ParsedArguments) {
        isStrict = arguments.has("strict-secrets")
        credentials = arguments.environment["CREDENTIALS_DIRECTORY"].flatMap { $0.isEmpty ? nil : $0 + "/" }
    }

    /// - Throws: a sentence with the fix where the file can't be read, or others can read it and that is refused.
    func check(_ path: String) throws -> Warning? {
        let user = geteuid()
        // As the effective user: `access` alone asks for the real one.
        let failure = faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0 ? 0 : errno
        let permissions = FilePermissions(ofFile: path)
        if failure == EACCES {
            guard let permissions else {
                throw CommandFailure(
                    "\(path) can't be read: a folder above it is closed to uid \(user), as which this program runs. "
                        + "Open that folder to it, or put the file elsewhere.")
            }
            throw CommandFailure(
                "\(path) can't be read: it has mode \(permissions.modeText) and belongs to uid \(permissions.owner), and "
                    + "this program runs as uid \(user). Let it: chown \(user) \(path).")
        }
        // Anything else that is wrong with it, reading it will say.
        guard failure == 0, let permissions, permissions.areForOthers else { return nil }
        if let credentials, path.hasPrefix(credentials) { return nil }
        let owned = "chmod 600 \(path)"
        let fix = permissions.owner == user || user == 0 ? owned : "chown \(user) \(path) && \(owned)"
        guard !isStrict else {
            throw CommandFailure(
                "\(path) holds secrets, and others can read or change it (mode \(permissions.modeText)), which "
                    + "--strict-secrets forbids. Close it: \(fix).")
        }
        return Warning(file: path, mode: permissions.modeText, fix: fix)
    }
}
