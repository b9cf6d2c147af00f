import CBuild
import LogStore

struct VersionCommand: Command {
    static let version = "0.2.0-dev"
    /// The commit that the program was built from, in hexadecimal digits; nil if the build did not name it, for example without git.
    static let commit: String? = {
        let text = String(cString: pathmirror_build_commit())
        return text.isEmpty ? nil : text
    }()
    /// The version with the schema's version, as gateways show it to other programs.
    static var program: String { program(commit: commit) }
    static let specification = CommandSpecification(
        "version", "prints the version, the commit of the build, and the schema's version", options: [.json])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        guard arguments.has("json") else { return console.write(program) }
        console.write(
            JSONOutput.object([
                "version": .text(version), "commit": JSONOutput(commit), "schema": .number(Int64(Migrations.newest)),
            ]).line)
    }

    /// `0.2.0-dev+4ba6e39d01f2, schema 29`.
    static func program(commit: String?) -> String {
        "\(version)\(commit.map { "+\($0)" } ?? ""), schema \(Migrations.newest)"
    }
}
