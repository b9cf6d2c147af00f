import LogStore

/// Shortens all logs once, now.
struct RetentionRunCommand: Command {
    static let whenInterrupted = "What was dropped stays dropped; the same command goes on."
    static let specification = CommandSpecification(
        "retention run", "drops now what gateways would drop by themselves; for timers, where no gateway does it",
        options: [.json] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try Database.connection(arguments, console, "retention", of: .home)
        defer { connection.close() }
        guard try connection.takeRetentionTurn() else {
            throw CommandFailure("A gateway, or another 'retention run', is at it right now.")
        }
        let round = RetentionRound(connection)
        var last: Int64 = 0
        var failed = 0
        while true {
            let namespaces = try connection.namespacesWithRetention(after: last, limit: 1_000)
            guard let end = namespaces.last else { break }
            last = end
            for namespace in namespaces {
                try console.interruption.check()
                guard let record = try connection.namespace(id: namespace),
                    let outcome = try console.telling(
                        "\(record.name): dropping old entries", isQuiet: arguments.has("json"),
                        { _ in try round.run(namespace) }),
                    let after = try connection.namespace(id: namespace)
                else { continue }
                if outcome.message != nil { failed += 1 }
                report(outcome, after, arguments.has("json"), console)
            }
        }
        if failed > 0 { throw CommandFailure("Logs that could not be shortened: \(failed).") }
    }

    private static func report(
        _ outcome: RetentionOutcome, _ namespace: NamespaceRecord, _ asJSON: Bool, _ console: Console
    ) {
        if asJSON {
            let line = JSONOutput.object([
                "namespace": .text(namespace.name), "dropped": .number(outcome.dropped),
                "retainedFrom": .number(namespace.retainedFrom), "tookSnapshot": .bool(outcome.tookSnapshot),
                "waitsFor": JSONOutput(outcome.waitsFor), "message": JSONOutput(outcome.message),
            ])
            return console.write(line.line)
        }
        var text =
            "\(namespace.name): \(outcome.dropped) entries dropped; the log begins at seq \(namespace.retainedFrom)"
        if outcome.tookSnapshot { text += "; a snapshot was taken" }
        if let reader = outcome.waitsFor { text += "; \(reader) still needs more" }
        if let message = outcome.message { text += "; failed: \(message)" }
        console.write(text)
    }
}
