import LogStore

/// Shortens all logs once, now.
struct RetentionRunCommand: Command {
    static let whenInterrupted = "What was dropped stays dropped; the same command goes on."
    static let specification = CommandSpecification(
        "retention run", "drops now what gateways would drop by themselves; for timers, where no gateway does it",
        options: [.init("ns", "NAME", "only this namespace's log; default all"), .json] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try Database.connection(arguments, console, "retention", of: .namespaceIfGiven)
        defer { connection.close() }
        let wanted = try arguments["ns"].map { _ in try Database.namespace(arguments, connection) }
        if let wanted, try connection.retentionInForce(for: wanted.id) == nil {
            throw CommandFailure(
                "Nothing was said of the log of \(wanted.name), so all of it stays: see 'pathmirror retention set --ns \(wanted.name)'."
            )
        }
        guard try connection.takeRetentionTurn() else {
            throw CommandFailure("A gateway, or another 'retention run', is at it right now.")
        }
        let round = RetentionRound(connection)
        var failed = 0
        if let wanted {
            if try !shorten(wanted.id, round, connection, arguments, console) { failed += 1 }
        } else {
            var last: Int64 = 0
            while true {
                let namespaces = try connection.namespacesWithRetention(after: last, limit: 1_000)
                guard let end = namespaces.last else { break }
                last = end
                for namespace in namespaces where try !shorten(namespace, round, connection, arguments, console) {
                    failed += 1
                }
            }
        }
        if failed > 0 { throw CommandFailure("Logs that could not be shortened: \(failed).") }
    }

    /// Shortens one log. False where that failed.
    private static func shorten(
        _ namespace: Int64, _ round: RetentionRound, _ connection: LogConnection, _ arguments: ParsedArguments,
        _ console: Console
    ) throws -> Bool {
        try console.interruption.check()
        guard let record = try connection.namespace(id: namespace),
            let outcome = try console.telling(
                "\(record.name): dropping old entries", isQuiet: arguments.has("json"),
                { _ in try round.run(namespace) }),
            let after = try connection.namespace(id: namespace)
        else { return true }
        report(outcome, after, arguments.has("json"), console)
        return outcome.message == nil
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
            "\(namespace.name): \(Counted.text(outcome.dropped, "entry")) dropped; the log begins at seq \(namespace.retainedFrom)"
        if outcome.tookSnapshot { text += "; a snapshot was taken" }
        if let reader = outcome.waitsFor { text += "; \(reader) still needs more" }
        if let message = outcome.message { text += "; failed: \(message)" }
        console.write(text)
    }
}
