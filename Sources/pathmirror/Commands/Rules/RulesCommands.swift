import LogStore
import Rules
import Runtime
import Tree

struct RulesCheckCommand: Command {
    static let specification = CommandSpecification(
        "rules check", "checks a rules file; exits 1 if it has errors", positionals: ["FILE|-"], options: [.json])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let file = arguments.positionals[0]
        let text = try Files.read(file, standardInput: console.input)
        guard arguments.has("json") else {
            _ = try RulesText.compile(text, file, console)
            return console.write("\(file) is valid")
        }
        var errors: [RulesError.Problem] = []
        var warnings: [RulesError.Problem] = []
        do throws(RulesError) {
            warnings = try RuleSet(json: text, keepsWarnings: true).warnings
        } catch {
            errors = error.problems
        }
        console.write(
            JSONOutput.object([
                "valid": .bool(errors.isEmpty), "errors": RulesText.json(errors), "warnings": RulesText.json(warnings),
            ]).line)
        guard errors.isEmpty else { throw CommandFailure("\(file) has \(Counted.text(errors.count, "mistake")).") }
    }
}

struct RulesTestCommand: Command {
    static let specification = CommandSpecification(
        "rules test", "runs a table of cases and lists the failed ones; exits 1 if there are any",
        positionals: ["FILE|-"], options: [.json])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let file = arguments.positionals[0]
        let text = try Files.read(file, standardInput: console.input)
        let report: RulesConformance.Report
        do throws(RulesError) {
            report = try RulesConformance.run(text)
        } catch {
            throw CommandFailure("\(file) is not a table of cases:\n\(error)")
        }
        if arguments.has("json") {
            console.write(json(report).line)
        } else {
            console.writeBytes(Array(report.description.utf8))
        }
        guard report.failed == 0 else {
            throw CommandFailure("\(report.failed) of \(report.results.count) cases failed.")
        }
        guard !report.results.isEmpty else { throw CommandFailure("\(file) has no cases.") }
    }

    private static func json(_ report: RulesConformance.Report) -> JSONOutput {
        .object([
            "cases": .number(Int64(report.results.count)), "passed": .number(Int64(report.passed)),
            "failed": .number(Int64(report.failed)), "disputed": .number(Int64(report.disputed)),
            "results": .list(
                report.results.map { result in
                    switch result.outcome {
                    case .passed: .object(["name": .text(result.name), "outcome": .text("passed")])
                    case .failed(let reason):
                        .object([
                            "name": .text(result.name), "outcome": .text("failed"), "reason": .text(reason),
                        ])
                    case .disputed(let reason, let dispute):
                        .object([
                            "name": .text(result.name), "outcome": .text("disputed"), "reason": .text(reason),
                            "dispute": .text(dispute),
                        ])
                    }
                }),
        ])
    }
}

struct RulesGetCommand: Command {
    static let specification = CommandSpecification(
        "rules get", "prints the security rules in force, with their comments",
        options: [
            RulesText.namespace, .init("seq", "SEQ", "the rules that this entry set (see 'rules history')"),
            .init("strict", nil, "without comments: plain JSON"), OutputFile.option,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try DatabaseLocator.connection(arguments, console, "rules")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        let seq = try arguments.integer("seq", in: 1...Int(Int64.max)).map(Int64.init)
        let stored = try seq.map { try connection.rules(namespace.id, at: $0) } ?? connection.currentRules(namespace.id)
        guard let stored else {
            throw CommandFailure(
                seq.map { "Entry \($0) of \"\(namespace.name)\" set no rules." }
                    ?? "\"\(namespace.name)\" has no rules of its own; its gateways use those of --rules.")
        }
        guard !stored.isCleared else {
            throw CommandFailure("Entry \(stored.seq) of \"\(namespace.name)\" removed the rules.")
        }
        let text = arguments.has("strict") ? try RuleSet(json: stored.source).strictSource : stored.source
        let output = try OutputFile(arguments["output"], standardOutput: console.output)
        try output.write(text.last == 0x0A ? text : text + [0x0A])
        try output.finish()
    }
}

struct RulesSetCommand: Command {
    static let specification = CommandSpecification(
        "rules set", "checks rules and applies them on all gateways, from one entry of the log on",
        positionals: ["FILE|-"],
        options: [
            RulesText.namespace, .init("dry-run", nil, "only checks them"), .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let file = arguments.positionals[0]
        let text = try Files.read(file, standardInput: console.input)
        let rules = try RulesText.compile(text, file, console)
        if arguments.has("dry-run") {
            return console.write(arguments.has("json") ? "{\"seq\":null}" : "\(file) is valid")
        }
        let connection = try DatabaseLocator.connection(arguments, console, "rules")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection, creating: true)
        let seq = try connection.setRules(namespace.id, source: text, origin: RulesText.origin)
        if arguments.has("json") {
            return console.write(
                JSONOutput.object(["seq": .number(seq), "warnings": RulesText.json(rules.warnings)]).line)
        }
        console.write("The rules of \"\(namespace.name)\" apply from seq \(seq) on.")
    }
}

struct RulesHistoryCommand: Command {
    static let specification = CommandSpecification(
        "rules history", "lists the rules that the namespace has had, the newest last",
        options: [RulesText.namespace, .json] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try DatabaseLocator.connection(arguments, console, "rules")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        var table = TextTable(["SEQ", "TIME", "SIZE", "BY"], numbers: [0, 2])
        for stored in try connection.rulesHistory(namespace.id) {
            // The entry may have been pruned; the rules stay.
            let entry = try connection.entry(namespace.id, stored.seq)?.entry
            let time = entry.map { Timestamp.iso8601(unixMilliseconds: $0.committedAt) }
            let origin = entry?.origin?.json
            if arguments.has("json") {
                console.write(
                    JSONOutput.object([
                        "seq": .number(stored.seq), "committedAt": .init(time),
                        "origin": origin.map(JSONOutput.raw) ?? .null, "bytes": .number(Int64(stored.source.count)),
                    ]).line)
            } else {
                let by = entry.map { OriginText.author($0.origin) } ?? ""
                table.add(
                    "\(stored.seq)", time ?? "(not in the log any more)",
                    stored.isCleared ? "removed" : "\(stored.source.count) bytes", by)
            }
        }
        table.write(to: console)
    }
}

struct RulesRollbackCommand: Command {
    static let specification = CommandSpecification(
        "rules rollback", "applies earlier rules again, by a new entry",
        positionals: ["[SEQ]"], options: [RulesText.namespace, .json] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try DatabaseLocator.connection(arguments, console, "rules")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        let earlier = try earlier(arguments.positionals.first, namespace, connection)
        // Rules that were valid for an older program may be invalid for this one.
        if !earlier.isCleared { _ = try RulesText.compile(earlier.source, "seq \(earlier.seq)", console) }
        let seq = try connection.setRules(namespace.id, source: earlier.source, origin: RulesText.origin)
        if arguments.has("json") {
            return console.write("{\"seq\":\(seq),\"from\":\(earlier.seq)}")
        }
        guard !earlier.isCleared else { return console.write(RulesText.removed(namespace, seq)) }
        console.write("The rules of \"\(namespace.name)\" from seq \(earlier.seq) apply again, from seq \(seq) on.")
    }

    private static func earlier(
        _ argument: String?, _ namespace: NamespaceRecord, _ connection: LogConnection
    ) throws -> StoredRules {
        if let argument {
            guard let seq = Int64(argument) else {
                throw UsageError("SEQ must be a whole number: see 'pathmirror rules history'.")
            }
            guard let stored = try connection.rules(namespace.id, at: seq) else {
                throw CommandFailure(
                    "Entry \(seq) of \"\(namespace.name)\" set no rules: see 'pathmirror rules history'.")
            }
            return stored
        }
        let history = try connection.rulesHistory(namespace.id)
        guard let newest = history.last else {
            throw CommandFailure("\"\(namespace.name)\" has never had rules of its own.")
        }
        guard history.count > 1 else {
            throw CommandFailure(
                "The rules of \"\(namespace.name)\" from seq \(newest.seq) have no earlier version. 'pathmirror rules clear' removes them."
            )
        }
        return history[history.count - 2]
    }
}

struct RulesClearCommand: Command {
    static let specification = CommandSpecification(
        "rules clear", "removes the namespace's rules on all gateways, from one entry of the log on",
        options: [RulesText.namespace, .json] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try DatabaseLocator.connection(arguments, console, "rules")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        guard try connection.currentRules(namespace.id) != nil else {
            let text = "\"\(namespace.name)\" has no rules of its own. Nothing was changed."
            return console.write(arguments.has("json") ? "{\"seq\":null}" : text)
        }
        let seq = try connection.setRules(namespace.id, source: [], origin: RulesText.origin)
        if arguments.has("json") { return console.write("{\"seq\":\(seq)}") }
        console.write(RulesText.removed(namespace, seq))
        console.write(arguments.completing("'pathmirror rules rollback' restores them."))
    }
}

/// Functions shared by the `rules` commands.
enum RulesText {
    static let namespace = OptionSpecification("ns", "NAME", "the namespace; default \"default\"")

    /// Compiles rules, and prints warnings on standard error.
    static func compile(_ text: [UInt8], _ name: String, _ console: Console) throws -> RuleSet {
        do throws(RulesError) {
            let rules = try RuleSet(json: text, keepsWarnings: true)
            for warning in rules.warnings { console.error("\(name):\(warning) (warning)") }
            return rules
        } catch {
            throw CommandFailure(error.problems.map { "\(name):\($0)" }.joined(separator: "\n"))
        }
    }

    static func json(_ problems: [RulesError.Problem]) -> JSONOutput {
        .list(
            problems.map { problem in
                .object([
                    "line": .number(Int64(problem.line)), "column": .number(Int64(problem.column)),
                    "message": .text(problem.message),
                ])
            })
    }

    /// The result of removing a namespace's rules.
    static func removed(_ namespace: NamespaceRecord, _ seq: Int64) -> String {
        "\"\(namespace.name)\" has no rules of its own from seq \(seq) on; its gateways use those of --rules."
    }

    /// A user who may run commands on the database is an administrator.
    static let origin = Origin(uid: nil, isAdmin: true, via: .cli, address: nil)
}
