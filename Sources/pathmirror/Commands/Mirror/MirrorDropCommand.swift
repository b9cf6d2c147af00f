import LogStore
import Mirrors
import Postgres

struct MirrorDropCommand: Command {
    static let specification = CommandSpecification(
        "mirror drop", "removes a mirror and its table", positionals: ["NAME"],
        options: [
            MirrorOptions.namespace, .init("yes", nil, "doesn't ask"),
            .init(
                "abandon", nil,
                "forgets a mirror in another database that is gone for good; what is left of its table stays"),
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(arguments, console)
        defer { administration.close() }
        let mirror = try MirrorOptions.mirror(arguments, administration)
        if arguments.has("abandon") { return try abandon(mirror, arguments, administration, console) }
        if !arguments.has("yes") {
            let (what, stays) = consequences(of: mirror, administration)
            guard console.confirms("Drop \(what)?\(stays)") else {
                throw CommandFailure("Nothing was changed. --yes drops \(what), without asking.\(stays)")
            }
        }
        try console.telling("\(mirror.name): dropping \(mirror.definition.tableName)", isQuiet: false) { _ in
            do {
                try administration.drop(mirror)
            } catch let error as PostgresError where mirror.target != nil && error.endsConnection {
                throw CommandFailure(
                    "\(error). Nothing was changed. If that database is gone for good, 'pathmirror mirror drop \(mirror.name) --ns \(mirror.namespace) --abandon' forgets the mirror."
                )
            }
        }
    }

    private static func abandon(
        _ mirror: CatalogMirror, _ arguments: ParsedArguments, _ administration: MirrorAdministration,
        _ console: Console
    ) throws {
        let what = "\(mirror.name), and leave \(mirror.definition.tableName) in its database as it is"
        guard arguments.has("yes") || console.confirms("Forget \(what)?") else {
            throw CommandFailure("Nothing was changed. --yes has it forget \(what), without asking.")
        }
        try administration.abandon(mirror)
    }

    /// What goes, as a part of a sentence, and what goes with it or stays, as sentences.
    private static func consequences(
        of mirror: CatalogMirror, _ administration: MirrorAdministration
    ) -> (what: String, stays: String) {
        let size = administration.size(of: mirror)
        let rows = size.map { " (\($0.isEstimate ? "about " : "")\(Counted.text(Int($0.rowCount), "row")))" } ?? ""
        let what = "\(mirror.name) with its table \(mirror.definition.tableName)\(rows)"
        var text = ""
        if mirror.definition.keeps != nil { text += " What it keeps of the past is lost." }
        let others = ((try? administration.mirrors()) ?? []).filter {
            $0.namespaceID == mirror.namespaceID && $0.id != mirror.id
                && $0.definition.pattern == mirror.definition.pattern
        }
        if !others.isEmpty {
            let names = others.map(\.name).joined(separator: ", ")
            text += " Other mirrors of these records stay: \(names)."
        }
        return (what, text)
    }
}
