import LogStore
import Mirrors
import Tree

struct MirrorListCommand: Command {
    static let specification = CommandSpecification(
        "mirror ls", "lists the mirrors", options: [.json] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(arguments, of: .home)
        defer { administration.close() }
        for mirror in try administration.mirrors() {
            if arguments.has("json") {
                let line = JSONOutput.object([
                    "namespace": .text(mirror.namespace), "name": .text(mirror.name), "paused": .bool(mirror.isPaused),
                    "definition": .raw(mirror.definition.json),
                ]).line
                console.write(line)
            } else {
                console.write(
                    "\(mirror.namespace)  \(mirror.name)  \(mirror.definition.pattern) → \(mirror.definition.tableName)"
                        + (mirror.isPaused ? "  paused" : "") + (mirror.target != nil ? "  in another database" : ""))
            }
        }
    }
}
