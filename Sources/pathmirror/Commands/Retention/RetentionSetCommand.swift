import LogStore

/// Says what of logs stays.
struct RetentionSetCommand: Command {
    static let specification = CommandSpecification(
        "retention set", "says what of the log stays: gateways drop the rest by themselves",
        options: [
            RetentionOptions.namespace, RetentionOptions.all,
            .init("keep", "30d|N", "what stays: entries of so many days (d), hours (h) or minutes (m), or the last N"),
            .init(
                "max-bytes", "N",
                "what the log's partitions may take on the disk; the oldest go, however young they are"),
            .init("snapshot-every", "1d", "how old the newest snapshot may get; default a quarter of what is kept"),
            .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let policy = RetentionPolicy(
            keeping: try keeping(arguments),
            maxBytes: try arguments.integer("max-bytes", in: 1...Int.max).map { Int64($0) },
            snapshotSeconds: try snapshotSeconds(arguments))
        guard policy.keeping != nil || policy.maxBytes != nil else {
            throw UsageError("--keep, --max-bytes or both must say what stays.")
        }
        let connection = try Database.connection(arguments, console, "retention set", of: .namespaceIfGiven)
        defer { connection.close() }
        let namespace = try RetentionOptions.subject(arguments, connection)
        try connection.setRetention(policy, of: namespace?.id)
        let text = RetentionOptions.text(policy)
        console.write(
            arguments.has("json")
                ? JSONOutput.object(["namespace": JSONOutput(namespace?.name), "policy": .text(text)]).line
                : "\(namespace.map { "The log of \($0.name)" } ?? "Every log without a policy of its own") is kept by: \(text)"
        )
    }

    private static func keeping(_ arguments: ParsedArguments) throws -> Pruning.Keeping? {
        guard let text = arguments["keep"] else { return nil }
        guard let keeping = Pruning.Keeping(text), keeping != .seconds(0) else {
            throw UsageError("--keep must be like 30d, 12h, 45m, or a number of entries.")
        }
        return keeping
    }

    private static func snapshotSeconds(_ arguments: ParsedArguments) throws -> Int64? {
        guard let text = arguments["snapshot-every"] else { return nil }
        guard case .seconds(let seconds)? = Pruning.Keeping(text), seconds > 0 else {
            throw UsageError("--snapshot-every must be like 1d, 6h or 45m.")
        }
        return seconds
    }
}
