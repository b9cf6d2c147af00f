import LogStore
import Postgres
import Runtime

/// How to get into the databases besides the home, where that is not as into the home: a file of lines `NAME CONNINFO`, such as
/// `b user=pathmirror password=secret`. The home's tables say where the databases are, and hold no password.
struct DatabaseLogins: Sendable {
    static let option = OptionSpecification(
        "database-credentials", "FILE",
        "logins of further databases, one a line: NAME and options of libpq such as user=… password=…; default: the home's login"
    )

    private let file: String?
    private let check: SecretFile

    init(_ arguments: ParsedArguments) {
        file = arguments[Self.option.name]
        check = SecretFile(arguments)
    }

    /// What of the file is for a database, as it is now; nil where nothing is.
    func login(for name: String) throws -> PostgresURL? {
        guard let file else { return nil }
        return try Self.read(try Files.read(file), file)[name]
    }

    /// What others may do with the file, once at the start.
    func warning() throws -> SecretFile.Warning? { try file.flatMap { try check.check($0) } }

    /// How a database is reached.
    func url(of record: DatabaseRecord, home: PostgresURL) throws -> PostgresURL {
        record.url(home: home, login: try login(for: record.name))
    }

    /// - Throws: with the number of the line, and never with its text, which holds a password.
    static func read(_ bytes: [UInt8], _ file: String) throws -> [String: PostgresURL] {
        var found: [String: PostgresURL] = [:]
        let lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() {
            // As a file has it that was written elsewhere.
            let end = line.last == 0x0D ? line.dropLast() : line
            let text = String(decoding: end, as: UTF8.self).drop { $0 == " " || $0 == "\t" }
            if text.isEmpty || text.hasPrefix("#") { continue }
            let parts = text.split(maxSplits: 1, omittingEmptySubsequences: true) { $0 == " " || $0 == "\t" }
            guard parts.count == 2, let login = try? PostgresURL(String(parts[1])) else {
                throw CommandFailure(
                    "\(file), line \(index + 1): it must be a database's name and options of libpq, such as user=… password=…"
                )
            }
            found[String(parts[0])] = login
        }
        return found
    }
}
