import LogStore

/// What the commands about retention have in common.
enum RetentionOptions {
    static let namespace = OptionSpecification("ns", "NAME", "the namespace")
    static let all = OptionSpecification(
        "all", nil, "for all namespaces that nothing else was said for, those to come included")

    /// The namespace that `--ns` names; nil for `--all`. One of them has to be given.
    static func subject(_ arguments: ParsedArguments, _ connection: LogConnection) throws -> NamespaceRecord? {
        guard (arguments["ns"] != nil) != arguments.has("all") else {
            throw UsageError("give either --ns NAME or --all.")
        }
        return arguments.has("all") ? nil : try Database.namespace(arguments, connection)
    }

    /// A policy as `retention set` takes it: `--keep 30d --max-bytes 1000000`.
    static func text(_ policy: RetentionPolicy) -> String {
        var words: [String] = []
        switch policy.keeping {
        case .seconds(let seconds)?: words.append("--keep \(span(seconds))")
        case .entries(let count)?: words.append("--keep \(count)")
        case .from?, nil: break
        }
        if let bytes = policy.maxBytes { words.append("--max-bytes \(bytes)") }
        if let seconds = policy.snapshotSeconds { words.append("--snapshot-every \(span(seconds))") }
        return words.joined(separator: " ")
    }

    /// `30d`, `12h`, `45m`.
    private static func span(_ seconds: Int64) -> String {
        if seconds % 86_400 == 0 { return "\(seconds / 86_400)d" }
        return seconds % 3_600 == 0 ? "\(seconds / 3_600)h" : "\(seconds / 60)m"
    }
}
