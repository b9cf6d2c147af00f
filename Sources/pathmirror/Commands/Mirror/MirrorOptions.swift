import LogStore
import Mirrors
import Postgres

/// What the `mirror` commands have in common.
enum MirrorOptions {
    static let namespace = OptionSpecification("ns", "NAME", "the namespace; default \"default\"")

    static func administration(
        _ arguments: ParsedArguments, _ console: Console, of subject: Database.Subject = .namespace
    ) throws -> MirrorAdministration {
        let administration = try MirrorAdministration(
            try Database.url(arguments, of: subject), environment: arguments.environment.all
        ) { console.interruption.stops($0) }
        try administration.source.checkSchema()
        return administration
    }

    static func mirror(_ arguments: ParsedArguments, _ administration: MirrorAdministration) throws -> CatalogMirror {
        try administration.mirror(named: arguments.positionals[0], of: arguments["ns"] ?? "default")
    }
}
