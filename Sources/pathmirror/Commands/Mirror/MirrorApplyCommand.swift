import LogStore
import Mirrors
import Postgres
import Runtime
import Tree

struct MirrorApplyCommand: Command {
    static let specification = CommandSpecification(
        "mirror apply", "creates and changes mirrors by definition files; shows the plan first",
        positionals: ["FILE…"],
        options: [
            .init("ns", "NAME", "the namespace for definitions without one; default \"default\""),
            PlanConfirmation.option,
            .init("dry-run", nil, "lists the planned changes, and makes none"),
            .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        var definitions: [MirrorDefinition] = []
        for file in arguments.positionals {
            let text = try Files.read(file, maxBytes: 16 << 20, standardInput: console.input)
            definitions += try MirrorDefinition.read(text, source: file)
        }
        let administration = try MirrorOptions.administration(arguments, console)
        defer { administration.close() }
        let plans = try definitions.map { definition in
            do {
                return try administration.plan(definition, namespace: arguments["ns"] ?? "default")
            } catch let error as PostgresError where definition.target != nil {
                throw CommandFailure("The database of mirror \"\(definition.name)\": \(error)")
            }
        }
        try checkThatNoneIsAnothers(plans)
        let isJSON = arguments.has("json")
        let isDryRun = arguments.has("dry-run")
        if !isJSON { for plan in plans { show(plan, isDryRun, console) } }
        let isWork = plans.contains { $0.action != .unchanged }
        if isWork, !isDryRun { try PlanConfirmation.ask(arguments, console) }
        for (index, plan) in plans.enumerated() {
            var outcome: MirrorBuilder.Outcome?
            if !isDryRun {
                let progress = BuildProgress(console, plan.definition.name, isQuiet: isJSON)
                do {
                    try console.interruption.check()
                    outcome = try administration.execute(plan) { progress.update($0) }
                } catch {
                    progress.end()
                    let left = whatIsLeft(plans[..<index], plans[index...])
                    guard console.interruption.signal == nil, plans.count > 1 else { throw console.ending(error, left) }
                    let text = "\(error)"
                    throw CommandFailure(text + (text.hasSuffix(".") ? " " : ". ") + left)
                }
                progress.end()
            }
            for sentence in outcome?.lost ?? [] { console.error("\(plan.definition.tableName): \(sentence)") }
            if isJSON {
                console.write(json(plan, outcome, isDryRun))
            } else if let outcome {
                console.write(text(plan, outcome, arguments))
                if let begins = outcome.begins { console.write(text(plan, begins)) }
            }
        }
    }

    /// Throws if two plans have the same name or table.
    private static func checkThatNoneIsAnothers(_ plans: [MirrorPlan]) throws {
        var names: Set<String> = []
        for plan in plans where !names.insert("\(plan.namespaceID) \(plan.definition.name)").inserted {
            throw CommandFailure(
                "Two of these mirrors of namespace \"\(plan.namespace)\" have the name \(plan.definition.name).")
        }
        var tables: Set<String> = []
        for plan in plans where !tables.insert("\(plan.definition.target ?? "") \(plan.definition.tableName)").inserted
        {
            throw CommandFailure(
                "Two of these mirrors have the table \(plan.definition.tableName). Set another table in one definition, such as \(plan.definition.tableMember(of: plan.namespace))."
            )
        }
    }

    private static func whatIsLeft(_ done: ArraySlice<MirrorPlan>, _ left: ArraySlice<MirrorPlan>) -> String {
        let names = { (plans: ArraySlice<MirrorPlan>) in plans.map(\.definition.name).joined(separator: ", ") }
        let what = done.isEmpty ? "No plan was executed" : "Executed: \(names(done))"
        return "\(what); left: \(names(left)). The same command resumes with these."
    }

    private static func show(_ plan: MirrorPlan, _ isDryRun: Bool, _ console: Console) {
        var line =
            "\(plan.actionName)  \(plan.definition.name)  \(plan.definition.pattern) → \(plan.definition.tableName)"
        if !plan.reasons.isEmpty { line += "  (\(plan.reasons.joined(separator: "; ")))" }
        console.write(line)
        guard isDryRun else { return }
        for sentence in plan.consequences { console.write("  \(sentence)") }
    }

    /// Describes the result of a build, with the command that shows its conversion errors.
    private static func text(
        _ plan: MirrorPlan, _ outcome: MirrorBuilder.Outcome, _ arguments: ParsedArguments
    ) -> String {
        let name = plan.definition.name
        let text = "\(name): \(Counted.text(outcome.rows, "row")) at seq \(outcome.seq)"
        guard outcome.conversionErrors > 0 else { return text }
        // The definition may name another namespace than the command does.
        let namespace = plan.namespace == arguments["ns"] ?? "default" ? "" : " --ns \(plan.namespace)"
        return arguments.completing(
            "\(text), \(Counted.text(outcome.conversionErrors, "conversion error")): see 'pathmirror mirror errors \(name)\(namespace)'"
        )
    }

    /// Describes where a history begins.
    private static func text(_ plan: MirrorPlan, _ begins: MirrorHistoryBeginning) -> String {
        let time = begins.at.map { " (after the previous one at \(Timestamp.iso8601(unixMilliseconds: $0)))" } ?? ""
        return plan.definition.keeps == .latest
            ? "  rows of removed records are kept, from entry \(begins.seq) on\(time)"
            : "  its history begins with entry \(begins.seq)\(time)"
    }

    private static func json(_ plan: MirrorPlan, _ outcome: MirrorBuilder.Outcome?, _ isDryRun: Bool) -> String {
        JSONOutput.object([
            "name": .text(plan.definition.name), "namespace": .text(plan.namespace),
            "table": .text(plan.definition.tableName), "action": .text(plan.actionName),
            "reasons": .list(plan.reasons.map { .text($0) }),
            "rows": outcome.map { .number(Int64($0.rows)) } ?? .null,
            "misfits": outcome.map { .number(Int64($0.conversionErrors)) } ?? .null,
            "seq": outcome.map { .number($0.seq) } ?? .null, "begins": MirrorOptions.begins(outcome?.begins),
            "lost": .list((outcome?.lost ?? []).map { .text($0) }), "dryRun": .bool(isDryRun),
            "consequences": .list(plan.consequences.map { .text($0) }),
        ]).line
    }
}
