import LogStore
import Mirrors
import Postgres
import Runtime
import Tree

struct MirrorListCommand: Command {
    static let specification = CommandSpecification(
        "mirror ls", "lists the mirrors with the sizes of their tables",
        options: [.init("ns", "NAME", "only those of this namespace; default all"), .json] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(arguments, console, of: .namespaceIfGiven)
        defer { administration.close() }
        let namespace = try MirrorOptions.namespaceIfGiven(arguments, administration)
        var table = TextTable(["NAMESPACE", "NAME", "PATTERN → TABLE", "ROWS", "SIZE", "", ""], numbers: [3, 4])
        for mirror in try administration.mirrors() where namespace == nil || namespace == mirror.namespace {
            let size = administration.size(of: mirror)
            if arguments.has("json") {
                let line = JSONOutput.object([
                    "namespace": .text(mirror.namespace), "name": .text(mirror.name), "paused": .bool(mirror.isPaused),
                    "rows": size.map { .number($0.rowCount) } ?? .null,
                    "rowsAreEstimated": .bool(size?.isEstimate ?? false),
                    "bytes": size.map { .number($0.byteCount) } ?? .null,
                    "definition": .raw(mirror.definition.json),
                    "begins": MirrorOptions.begins(administration.beginning(of: mirror)),
                ]).line
                console.write(line)
            } else {
                table.add(
                    mirror.namespace, mirror.name, "\(mirror.definition.pattern) → \(mirror.definition.tableName)",
                    size.map { ($0.isEstimate ? "~" : "") + "\($0.rowCount)" } ?? "",
                    size.map { ByteCount.text($0.byteCount) } ?? "", mirror.isPaused ? "paused" : "",
                    mirror.target != nil ? "in another database" : "")
            }
        }
        table.write(to: console)
    }
}

struct MirrorStatusCommand: Command {
    static let specification = CommandSpecification(
        "mirror status", "shows the progress of the mirrors; exits 1 if one is broken", positionals: ["[NAME]"],
        options: [
            .init("ns", "NAME", "only those of this namespace; default all, and with NAME \"default\""), .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(
            arguments, console, of: arguments.positionals.isEmpty ? .namespaceIfGiven : .namespace)
        defer { administration.close() }
        let namespace = try MirrorOptions.namespaceIfGiven(arguments, administration)
        var statuses = try administration.statuses().filter { namespace == nil || $0.namespace == namespace }
        if let name = arguments.positionals.first {
            let mirror = try MirrorOptions.mirror(arguments, administration)
            statuses.removeAll { $0.name != name || $0.namespace != mirror.namespace }
        }
        var table = TextTable(["NAMESPACE", "NAME", "STATE", "PLACE", "LAG", "ERRORS"])
        for status in statuses {
            if arguments.has("json") { console.write(json(status)) } else { add(status, to: &table) }
        }
        table.write(to: console)
        if statuses.isEmpty, !arguments.has("json") {
            console.error(namespace.map { "Namespace \"\($0)\" has no mirrors." } ?? "There are no mirrors.")
        }
        if let broken = statuses.first(where: { $0.state == "broken" }) {
            throw CommandFailure("Mirror \"\(broken.name)\" is broken: \(broken.message ?? "")")
        }
    }

    private static func add(_ status: MirrorStatus, to table: inout TextTable) {
        let lag = status.lagMilliseconds.flatMap {
            $0 > 0 ? "\(LagText.text(seconds: Double($0) / 1_000)) behind" : nil
        }
        var errors = status.errors > 0 ? Counted.text(status.errors, "error") : ""
        if status.unkeptErrors > 0 {
            errors += " and \(status.unkeptErrors) that \(status.unkeptErrors == 1 ? "was" : "were") not stored"
        }
        table.add(
            status.namespace, status.name, status.state, status.seq.map { "seq \($0) of \(status.head)" } ?? "",
            lag ?? "", errors)
    }

    private static func json(_ status: MirrorStatus) -> String {
        JSONOutput.object([
            "namespace": .text(status.namespace), "name": .text(status.name), "table": .text(status.table),
            "state": .text(status.state), "seq": number(status.seq), "head": .number(status.head),
            "lagEntries": number(status.lagEntries), "lagMilliseconds": number(status.lagMilliseconds),
            "errors": .number(status.errors), "unkeptErrors": .number(status.unkeptErrors),
            "message": JSONOutput(status.message),
            "gateway": JSONOutput(status.gateway),
        ]).line
    }

    private static func number(_ value: Int64?) -> JSONOutput { value.map(JSONOutput.number) ?? .null }
}

struct MirrorPauseCommand: Command {
    static let specification = CommandSpecification(
        "mirror pause", "pauses a mirror; its table is kept, and not updated", positionals: ["NAME"],
        options: [MirrorOptions.namespace] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        try MirrorSwitch.set(arguments, console, isPaused: true)
    }
}

struct MirrorResumeCommand: Command {
    static let specification = CommandSpecification(
        "mirror resume", "resumes a paused mirror", positionals: ["NAME"],
        options: [MirrorOptions.namespace] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        try MirrorSwitch.set(arguments, console, isPaused: false)
    }
}

private enum MirrorSwitch {
    static func set(_ arguments: ParsedArguments, _ console: Console, isPaused: Bool) throws {
        let administration = try MirrorOptions.administration(arguments, console)
        defer { administration.close() }
        let mirror = try MirrorOptions.mirror(arguments, administration)
        try administration.setPaused(mirror, isPaused)
    }
}

struct MirrorDropCommand: Command {
    static let specification = CommandSpecification(
        "mirror drop", "removes a mirror and its table", positionals: ["NAME"],
        options: [
            MirrorOptions.namespace, .init("yes", nil, "doesn't ask"),
            .init(
                "abandon", nil,
                "removes a mirror whose database is permanently lost; the rest of its table stays"),
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let administration = try MirrorOptions.administration(arguments, console)
        defer { administration.close() }
        let mirror = try MirrorOptions.mirror(arguments, administration)
        if arguments.has("abandon") { return try abandon(mirror, arguments, administration, console) }
        if !arguments.has("yes") {
            let (what, stays) = consequences(of: mirror, administration)
            guard console.confirms("Drop \(what)?\(stays)") else {
                throw CommandFailure("Nothing was changed. Add --yes to drop \(what) without being asked.\(stays)")
            }
        }
        let dropped = try console.reporting(
            "\(mirror.name): dropping \(mirror.definition.tableName)", isQuiet: false
        ) { _ in
            do {
                return try administration.drop(mirror)
            } catch let error as PostgresError where mirror.target != nil && error.endsConnection {
                throw CommandFailure(
                    "\(error). Nothing was changed. If that database is permanently lost, 'pathmirror mirror drop \(mirror.name) --ns \(mirror.namespace) --abandon' removes the mirror."
                )
            }
        }
        console.write(text(mirror, dropped))
    }

    /// Describes the removed tables and views, with the table's number of rows.
    private static func text(_ mirror: CatalogMirror, _ dropped: DroppedMirror) -> String {
        let relations = dropped.relations.map { relation in
            (relation.isView ? "view " : "table ") + relation.name + (relation.size.map(text) ?? "")
        }
        let what =
            relations.isEmpty ? "it had no table" : "dropped \(relations.joined(separator: ", "))"
        return "Mirror \(mirror.name) of namespace \"\(mirror.namespace)\" is removed: \(what)."
    }

    /// ` (3 rows)`.
    private static func text(_ size: MirrorSize) -> String {
        " (\(size.isEstimate ? "about " : "")\(Counted.text(Int(size.rowCount), "row")))"
    }

    private static func abandon(
        _ mirror: CatalogMirror, _ arguments: ParsedArguments, _ administration: MirrorAdministration,
        _ console: Console
    ) throws {
        let what = "\(mirror.name), and leave table \(mirror.definition.tableName) in its database unchanged"
        guard arguments.has("yes") || console.confirms("Forget \(what)?") else {
            throw CommandFailure("Nothing was changed. Add --yes to forget \(what) without being asked.")
        }
        try administration.abandon(mirror)
        console.write(
            "Mirror \(mirror.name) of namespace \"\(mirror.namespace)\" is forgotten: table \(mirror.definition.tableName) stays in its database unchanged."
        )
    }

    /// Describes the removal as a part of a sentence, and its side effects as sentences.
    private static func consequences(
        of mirror: CatalogMirror, _ administration: MirrorAdministration
    ) -> (what: String, stays: String) {
        let size = administration.size(of: mirror)
        let what = "\(mirror.name) with its table \(mirror.definition.tableName)\(size.map(text) ?? "")"
        var text = ""
        if mirror.definition.keeps != nil { text += " Its history is lost." }
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

/// Functions shared by the `mirror` commands.
enum MirrorOptions {
    static let namespace = OptionSpecification("ns", "NAME", "the namespace; default \"default\"")

    static func administration(
        _ arguments: ParsedArguments, _ console: Console, of subject: DatabaseLocator.Subject = .namespace
    ) throws -> MirrorAdministration {
        let administration = try MirrorAdministration(
            try DatabaseLocator.url(arguments, of: subject), environment: arguments.environment.all
        ) { console.interruption.stops($0) }
        try administration.source.checkSchema()
        return administration
    }

    /// The namespace that `--ns` names, which must exist; nil without the option, for all namespaces.
    static func namespaceIfGiven(
        _ arguments: ParsedArguments, _ administration: MirrorAdministration
    ) throws -> String? {
        guard arguments["ns"] != nil else { return nil }
        return try DatabaseLocator.namespace(arguments, administration.source).name
    }

    /// The beginning of a history, as an object; null for a mirror without a history.
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
