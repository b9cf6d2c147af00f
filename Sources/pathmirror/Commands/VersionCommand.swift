import LogStore

struct VersionCommand: Command {
    static let version = "0.1.0"
    /// With the schema that it knows, which tells more of two builds between releases.
    static var program: String { "\(version), schema \(Migrations.newest)" }
    static let specification = CommandSpecification("version", "prints the version", options: [.json])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        console.write(arguments.has("json") ? "{\"version\":\"\(version)\"}" : "pathmirror \(version)")
    }
}
