import LogStore
import Runtime

/// What the commands about retention have in common.
enum RetentionOptions {
    static let namespace = OptionSpecification("ns", "NAME", "the namespace")
    static let all = OptionSpecification(
        "all", nil, "for all namespaces that nothing else was said for, those to come included")

    static let keep = OptionSpecification(
        "keep", "TIME|COUNT", "what stays: younger entries, as in 30d or 12h, or the newest, as in '1000 entries'")
    static let keepForm = "--keep must be a duration such as 30d or 12h, or a count such as '1000 entries'."

    /// What `--keep` says; nil where it is not given.
    static func keeping(_ arguments: ParsedArguments) throws -> Pruning.Keeping? {
        guard let text = arguments["keep"] else { return nil }
        guard let keeping = Pruning.Keeping(text) else { throw UsageError(keepForm) }
        return keeping
    }

    /// The namespace that `--ns` names; nil for `--all`. One of them has to be given.
    static func subject(_ arguments: ParsedArguments, _ connection: LogConnection) throws -> NamespaceRecord? {
        guard (arguments["ns"] != nil) != arguments.has("all") else {
            throw UsageError("give either --ns NAME or --all.")
        }
        return arguments.has("all") ? nil : try Database.namespace(arguments, connection)
    }

    /// A policy as `retention set` takes it: `--keep 30d --max-size 50GB`.
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
}
