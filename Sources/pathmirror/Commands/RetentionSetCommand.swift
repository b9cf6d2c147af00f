import LogStore
import Runtime

/// Says what of logs stays.
struct RetentionSetCommand: Command {
    static let specification = CommandSpecification(
        "retention set", "says what of the log stays: gateways drop the rest by themselves",
        options: [
            RetentionOptions.namespace, RetentionOptions.all,
            RetentionOptions.keep,
            .init(
                "max-size", "SIZE",
                "what the log's partitions may take on the disk, such as 50GB; the oldest go, however young they are"),
            .init("snapshot-every", "TIME", "how old the newest snapshot may get; default a quarter of what is kept"),
            .json,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let policy = RetentionPolicy(
            keeping: try keeping(arguments),
            maxBytes: try arguments.size("max-size", in: 1...Int.max).map { Int64($0) },
            snapshotSeconds: try snapshotSeconds(arguments))
        guard policy.keeping != nil || policy.maxBytes != nil else {
            throw UsageError("--keep, --max-size or both must say what stays.")
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
        let keeping = try RetentionOptions.keeping(arguments)
        guard keeping != .seconds(0), keeping != .entries(0) else {
            throw UsageError("--keep must be 1s or '1 entry' at least: a log that keeps nothing serves no reader.")
        }
        return keeping
    }

    private static func snapshotSeconds(_ arguments: ParsedArguments) throws -> Int64? {
        guard let text = arguments["snapshot-every"] else { return nil }
        guard let seconds = TimeSpan.seconds(text), (60...36_500 * 86_400).contains(seconds) else {
            throw UsageError("--snapshot-every must be a duration of whole seconds such as 6h, from 1m to 36500d.")
        }
        return seconds
    }
}
