import LogStore
import Runtime

/// Lists retention policies and the results of the last runs.
struct RetentionListCommand: Command {
    static let specification = CommandSpecification(
        "retention ls", "shows the retention of each log, and the last run; exits 1 if a run failed",
        options: [.init("ns", "NAME", "only that of this namespace; default all"), .json] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try DatabaseLocator.connection(arguments, console, "retention ls", of: .namespaceIfGiven)
        defer { connection.close() }
        let wanted = try arguments["ns"].map { _ in try DatabaseLocator.namespace(arguments, connection) }
        let forAll = try connection.retentionPolicy(of: nil)
        let asJSON = arguments.has("json")
        var table = TextTable(["NAMESPACE", "KEEPS", "ENTRIES", "DROPPED", "LAST LOOK", "NOTE"], numbers: [3])
        table.add("all others", forAll.map(RetentionOptions.text) ?? "everything", "", "", "", "")
        var failed = 0
        for namespace in try wanted.map({ [$0] }) ?? connection.allNamespaces() {
            let own = try connection.retentionPolicy(of: namespace.id)
            let run = try connection.retentionRun(of: namespace.id)
            if run?.message != nil { failed += 1 }
            // Namespaces without a policy and without a run are not listed.
            if !asJSON, wanted == nil, own == nil, run == nil { continue }
            if asJSON {
                console.write(line(namespace, own, forAll, run).line)
            } else {
                table.add(cells(namespace, own, run))
            }
        }
        if !asJSON { table.write(to: console) }
        if failed > 0 { throw CommandFailure("Logs that could not be pruned: \(failed).") }
    }

    private static func line(
        _ namespace: NamespaceRecord, _ own: RetentionPolicy?, _ forAll: RetentionPolicy?, _ run: RetentionRun?
    ) -> JSONOutput {
        .object([
            "namespace": .text(namespace.name), "head": .number(namespace.head),
            "retainedFrom": .number(namespace.retainedFrom),
            "policy": JSONOutput((own ?? forAll).map(RetentionOptions.text)), "isOwn": .bool(own != nil),
            "ranAt": JSONOutput(run.map { Timestamp.iso8601(unixMilliseconds: $0.ranAt) }),
            "dropped": run.map { .number($0.dropped) } ?? .null,
            "snapshots": run.map { .number($0.snapshots) } ?? .null,
            "waitsFor": JSONOutput(run?.waitsFor), "message": JSONOutput(run?.message),
        ])
    }

    private static func cells(
        _ namespace: NamespaceRecord, _ own: RetentionPolicy?, _ run: RetentionRun?
    ) -> [String] {
        var notes: [String] = []
        if let reader = run?.waitsFor { notes.append("\(reader) still needs more entries") }
        if let message = run?.message { notes.append("failed: \(message)") }
        return [
            namespace.name, own.map(RetentionOptions.text) ?? "as all others",
            "\(namespace.retainedFrom) to \(namespace.head)", run.map { "\($0.dropped)" } ?? "",
            run.map { Timestamp.iso8601(unixMilliseconds: $0.ranAt) } ?? "", notes.joined(separator: "; "),
        ]
    }
}

/// Removes a policy.
struct RetentionRemoveCommand: Command {
    static let specification = CommandSpecification(
        "retention rm", "removes a retention policy; the namespace then follows --all, or keeps everything",
        options: [RetentionOptions.namespace, RetentionOptions.all] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try DatabaseLocator.connection(arguments, console, "retention rm", of: .namespaceIfGiven)
        defer { connection.close() }
        let namespace = try RetentionOptions.subject(arguments, connection)
        let former = try connection.retentionPolicy(of: namespace?.id)
        guard try connection.removeRetention(of: namespace?.id), let former else {
            throw CommandFailure(
                "No retention policy is set for \(namespace.map { "the log of \($0.name)" } ?? "all logs").")
        }
        let forAll = try namespace == nil ? nil : connection.retentionPolicy(of: nil)
        let rest = forAll.map { "\(RetentionOptions.words($0)), by the default policy" }
        console.write("\(RetentionOptions.logs(of: namespace)) keeps \(rest ?? "everything").")
        console.write("To reverse it: \(RetentionOptions.setCommand(former, namespace))")
    }
}

/// Applies the policies to all logs once.
struct RetentionRunCommand: Command {
    static let whenInterrupted = "Dropped entries can't be restored; the same command resumes."
    static let specification = CommandSpecification(
        "retention run",
        "applies the retention policies once, as gateways do periodically; for timers, if no gateway does it",
        options: [.init("ns", "NAME", "only to the log of this namespace; default all"), .json]
            + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try DatabaseLocator.connection(arguments, console, "retention", of: .namespaceIfGiven)
        defer { connection.close() }
        let wanted = try arguments["ns"].map { _ in try DatabaseLocator.namespace(arguments, connection) }
        if let wanted, try connection.retentionInForce(for: wanted.id) == nil {
            throw CommandFailure(
                "No retention policy is set for \(wanted.name): its whole log is kept. See 'pathmirror retention set --ns \(wanted.name)'."
            )
        }
        guard try connection.takeRetentionTurn() else {
            throw CommandFailure("a gateway, or another 'retention run', is running right now.")
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
        if failed > 0 { throw CommandFailure("Logs that could not be pruned: \(failed).") }
    }

    /// Prunes one log. Returns false on failure.
    private static func shorten(
        _ namespace: Int64, _ round: RetentionRound, _ connection: LogConnection, _ arguments: ParsedArguments,
        _ console: Console
    ) throws -> Bool {
        try console.interruption.check()
        guard let record = try connection.namespace(id: namespace),
            let outcome = try console.reporting(
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
        if let reader = outcome.waitsFor { text += "; \(reader) still needs more entries" }
        if let message = outcome.message { text += "; failed: \(message)" }
        console.write(text)
    }
}

/// Functions shared by the commands about retention.
enum RetentionOptions {
    static let namespace = OptionSpecification("ns", "NAME", "the namespace")
    static let all = OptionSpecification(
        "all", nil, "for all namespaces without a policy of their own, including future ones")

    static let keep = OptionSpecification(
        "keep", "TIME|COUNT", "the entries to keep: younger ones, as in 30d or 12h, or the newest, as in '1000 entries'"
    )
    static let keepForm = "--keep must be a duration such as 30d or 12h, or a count such as '1000 entries'."

    /// The value of `--keep`; nil if it is not given.
    static func keeping(_ arguments: ParsedArguments) throws -> Pruning.Keeping? {
        guard let text = arguments["keep"] else { return nil }
        guard let keeping = Pruning.Keeping(text) else { throw UsageError(keepForm) }
        guard keeping != .seconds(0), keeping != .entries(0) else {
            throw UsageError(
                "--keep \(text) would drop the whole log, which no reader could follow: use at least 1s or '1 entry'.")
        }
        return keeping
    }

    /// The namespace that `--ns` names; nil for `--all`. Throws if neither is given.
    static func subject(_ arguments: ParsedArguments, _ connection: LogConnection) throws -> NamespaceRecord? {
        guard (arguments["ns"] != nil) != arguments.has("all") else {
            throw UsageError("give either --ns NAME or --all.")
        }
        return arguments.has("all") ? nil : try DatabaseLocator.namespace(arguments, connection)
    }

    /// A policy in the syntax of `retention set`: `--keep 30d --max-size 50GB`.
    static func text(_ policy: RetentionPolicy) -> String {
        var words: [String] = []
        switch policy.keeping {
        case .seconds(let seconds)?: words.append("--keep \(TimeSpan.text(seconds * 1_000))")
        case .entries(let count)?: words.append("--keep '\(Counted.text(count, "entry"))'")
        case .from?, nil: break
        }
        if let bytes = policy.maxBytes { words.append("--max-size \(ByteCount.exactText(bytes))") }
        if let seconds = policy.snapshotSeconds { words.append("--snapshot-every \(TimeSpan.text(seconds * 1_000))") }
        return words.joined(separator: " ")
    }

    /// Returns the command that sets a policy again.
    static func setCommand(_ policy: RetentionPolicy, _ namespace: NamespaceRecord?) -> String {
        "pathmirror retention set \(option(for: namespace)) \(text(policy))"
    }

    /// Returns the option that names a namespace, or `--all`.
    static func option(for namespace: NamespaceRecord?) -> String { namespace.map { "--ns \($0.name)" } ?? "--all" }

    /// Returns the subject of a sentence about a policy.
    static func logs(of namespace: NamespaceRecord?) -> String {
        namespace.map { "The log of \($0.name)" } ?? "Every log without a policy of its own"
    }

    /// Returns the entries that a policy keeps, as a part of a sentence: `the last 30 entries, but at most 50GB`.
    static func words(_ policy: RetentionPolicy) -> String {
        var parts: [String] = []
        if let keeping = policy.keeping { parts.append(words(keeping)) }
        if let bytes = policy.maxBytes { parts.append("at most \(ByteCount.exactText(bytes)) of partitions") }
        let snapshots = policy.snapshotSeconds.map { ", with a snapshot every \(span($0))" } ?? ""
        return parts.joined(separator: ", but ") + snapshots
    }

    /// Returns the entries that are kept, as a part of a sentence: `the entries of the last 30 days`.
    static func words(_ keeping: Pruning.Keeping) -> String {
        switch keeping {
        case .entries(1): "the last entry"
        case .entries(let count): "the last \(Counted.text(count, "entry"))"
        case .seconds(let seconds): "the entries of the last \(span(seconds))"
        case .from(let seq): "the entries from seq \(seq) on"
        }
    }

    /// Writes a duration with its largest whole unit: `30 days`, `36 hours`, `day`.
    private static func span(_ seconds: Int64) -> String {
        let units: [(noun: String, seconds: Int64)] = [("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)]
        let unit = units.first { seconds % $0.seconds == 0 } ?? ("second", 1)
        let count = seconds / unit.seconds
        return count == 1 ? unit.noun : Counted.text(count, unit.noun)
    }
}
