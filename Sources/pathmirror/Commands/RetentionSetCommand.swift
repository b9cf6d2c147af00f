import LogStore
import Runtime

/// Sets a policy, after showing the entries that it does not keep.
struct RetentionSetCommand: Command {
    static let specification = CommandSpecification(
        "retention set",
        "sets how much of the log is kept; gateways delete older entries automatically; shows the effect first",
        options: [
            RetentionOptions.namespace, RetentionOptions.all,
            RetentionOptions.keep,
            .init(
                "max-size", "SIZE",
                "the most disk space of the log's partitions, such as 50GB; the oldest entries are dropped, whatever their age"
            ),
            .init("snapshot-every", "TIME", "the most age of the newest snapshot; default a quarter of --keep"),
            Confirmation.option, .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let policy = RetentionPolicy(
            keeping: try RetentionOptions.keeping(arguments),
            maxBytes: try arguments.size("max-size", in: 1...Int.max).map { Int64($0) },
            snapshotSeconds: try snapshotSeconds(arguments))
        guard policy.keeping != nil || policy.maxBytes != nil else {
            throw UsageError("--keep, --max-size or both are needed.")
        }
        let connection = try DatabaseLocator.connection(arguments, console, "retention set", of: .namespaceIfGiven)
        defer { connection.close() }
        let namespace = try RetentionOptions.subject(arguments, connection)
        let dropped = try previews(of: policy, namespace, connection, arguments.has("json"), console)
        if !dropped.isEmpty {
            if !arguments.has("json") { show(dropped, policy, console) }
            try Confirmation.require(
                "Set this policy? Gateways then drop these entries, and they cannot be restored.",
                "Add --yes to set this policy without being asked: it drops \(total(dropped)).", arguments, console)
        }
        let former = try connection.retentionPolicy(of: namespace?.id)
        try connection.setRetention(policy, of: namespace?.id)
        guard !arguments.has("json") else { return console.write(json(policy, namespace, dropped).line) }
        console.write("\(RetentionOptions.logs(of: namespace)) keeps \(RetentionOptions.words(policy)).")
        guard former != policy else { return }
        let reversal =
            former.map { RetentionOptions.setCommand($0, namespace) }
            ?? "pathmirror retention rm \(RetentionOptions.option(for: namespace))"
        console.write("Entries that are dropped meanwhile cannot be restored. To reverse it: \(reversal)")
    }

    private static func snapshotSeconds(_ arguments: ParsedArguments) throws -> Int64? {
        guard let text = arguments["snapshot-every"] else { return nil }
        guard let seconds = TimeSpan.seconds(text), (60...36_500 * 86_400).contains(seconds) else {
            throw UsageError("--snapshot-every must be a duration of whole seconds such as 6h, from 1m to 36500d.")
        }
        return seconds
    }

    /// Returns the entries that the policy does not keep and that the policy in force keeps, the most first.
    private static func previews(
        of policy: RetentionPolicy, _ namespace: NamespaceRecord?, _ connection: LogConnection, _ isQuiet: Bool,
        _ console: Console
    ) throws -> [RetentionPreview] {
        let current: RetentionPolicy?
        let namespaces: [NamespaceRecord]
        if let namespace {
            current = try connection.retentionInForce(for: namespace.id)
            namespaces = [namespace]
        } else {
            current = try connection.retentionPolicy(of: nil)
            let others = try connection.namespacesWithOwnRetention()
            namespaces = try connection.allNamespaces().filter { !others.contains($0.id) }
        }
        let found = try console.reporting("retention: counting entries", isQuiet: isQuiet) { _ in
            try namespaces.compactMap { namespace in
                try console.interruption.check()
                return try Pruning(connection, namespace).preview(policy, after: current)
            }
        }
        return found.sorted { ($0.entries ?? .max) > ($1.entries ?? .max) }
    }

    // MARK: Showing

    /// The number of namespaces that are shown one by one.
    private static let mostShown = 20

    private static func show(_ dropped: [RetentionPreview], _ policy: RetentionPolicy, _ console: Console) {
        console.write("The policy keeps \(RetentionOptions.words(policy)), and drops:")
        var table = TextTable(["NAMESPACE", "DROPS", "ENTRIES", "SIZE", "NOTE"])
        for preview in dropped.prefix(mostShown) { table.add(cells(preview)) }
        table.write(to: console)
        let rest = Array(dropped.dropFirst(mostShown))
        if !rest.isEmpty { console.write("and \(total(rest))") }
    }

    private static func cells(_ preview: RetentionPreview) -> [String] {
        guard let wanted = preview.wantedFrom, let entries = preview.entries else {
            return [
                preview.namespace, "unknown", "", "",
                "PostgreSQL's clock is wrong, and the policy uses ages: see 'pathmirror doctor'",
            ]
        }
        return [
            preview.namespace, "\(entries) of \(Counted.text(preview.head - preview.oldFrom + 1, "entry"))",
            "seq \(preview.oldFrom) to \(wanted - 1)",
            preview.bytes == 0 ? "" : "\(ByteCount.text(preview.bytes)) in whole partitions",
            preview.waitsFor.map { "\($0) still needs some of them" } ?? "",
        ]
    }

    /// `120 entries of 1 namespace`
    private static func total(_ dropped: [RetentionPreview]) -> String {
        let count = dropped.reduce(0) { $0 + ($1.entries ?? 0) }
        let isKnown = dropped.allSatisfy { $0.entries != nil }
        let number = isKnown ? Counted.text(count, "entry") : "an unknown number of entries"
        return "\(number) of \(Counted.text(dropped.count, "namespace"))"
    }

    private static func json(
        _ policy: RetentionPolicy, _ namespace: NamespaceRecord?, _ dropped: [RetentionPreview]
    ) -> JSONOutput {
        .object([
            "namespace": JSONOutput(namespace?.name), "policy": .text(RetentionOptions.text(policy)),
            "drops": .list(
                dropped.map { preview in
                    .object([
                        "namespace": .text(preview.namespace), "entries": preview.entries.map { .number($0) } ?? .null,
                        "from": .number(preview.oldFrom), "to": preview.wantedFrom.map { .number($0 - 1) } ?? .null,
                        "bytes": .number(preview.bytes), "waitsFor": JSONOutput(preview.waitsFor),
                    ])
                }),
        ])
    }
}
