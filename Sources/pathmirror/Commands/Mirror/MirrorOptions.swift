import LogStore
import Mirrors
import Postgres
import Runtime

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

    /// The namespace that `--ns` names, which there has to be; nil without it, for all.
    static func namespaceIfGiven(
        _ arguments: ParsedArguments, _ administration: MirrorAdministration
    ) throws -> String? {
        guard arguments["ns"] != nil else { return nil }
        return try Database.namespace(arguments, administration.source).name
    }

    /// Where a history begins, as an object; null for what is none.
    static func begins(_ beginning: MirrorHistoryBeginning?) -> JSONOutput {
        guard let beginning else { return .null }
        return .object([
            "seq": .number(beginning.seq),
            "at": beginning.at.map { .text(Timestamp.iso8601(unixMilliseconds: $0)) } ?? .null,
        ])
    }

    static func mirror(_ arguments: ParsedArguments, _ administration: MirrorAdministration) throws -> CatalogMirror {
        try administration.mirror(named: arguments.positionals[0], of: arguments["ns"] ?? "default")
    }
}
