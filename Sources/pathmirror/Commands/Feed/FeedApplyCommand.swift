import Feeds
import LogStore
import Tokens

struct FeedApplyCommand: Command {
    static let whenInterrupted = "The feeds listed above are applied; the same command resumes with the others."
    static let specification = CommandSpecification(
        "feed apply", "creates and changes feeds by definition files; an unchanged definition does nothing",
        positionals: ["FILE…"],
        options: [
            .init("ns", "NAME", "the namespace for definitions without one; default \"default\""),
            .init("create", nil, "creates missing namespaces"), ReplayOptions.dryRun, .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let feeds = try read(arguments, console)
        let creates = arguments.has("create")
        let namespaces = Set(feeds.map(\.namespace))
        try FeedOptions.administer(arguments, console, "feed apply", of: .of(feeds.first?.namespace ?? "default")) {
            administration, connection in
            try DatabaseLocator.checkAreTogether(namespaces, arguments, console)
            // A mistake in the last definition is reported before the first one is applied. If the namespace is new, so is the feed.
            let plans = try feeds.map { feed -> FeedAdministration.Applied? in
                guard try connection.namespace(named: feed.namespace) == nil else {
                    return try administration.plan(feed.definition, for: feed.namespace)
                }
                guard creates else {
                    let near = NearestWord.all(
                        feed.namespace, among: try DatabaseLocator.namespaceNames(arguments, console))
                    throw CommandFailure(
                        "There is no namespace \"\(feed.namespace)\". Add --create to create it.\(NearestWord.question(near))"
                    )
                }
                // A token of such a feed could not be created either.
                guard FeedBinding(feed: feed.definition.name, namespace: feed.namespace) != nil else {
                    throw CommandFailure(
                        "\"\(feed.namespace)\" is not a valid namespace name: use 1 to 64 letters, digits, _ and -."
                    )
                }
                return nil
            }
            let isDryRun = arguments.has("dry-run")
            for (feed, plan) in zip(feeds, plans) {
                guard isDryRun else {
                    let applied = try administration.apply(
                        feed.definition, to: feed.namespace, creatingNamespace: creates)
                    report(feed, action(applied), seq: applied.seq, isDryRun: false, arguments, console)
                    continue
                }
                let seq = plan.flatMap { $0.isNew ? nil : $0.seq }
                report(feed, plan.map(action) ?? "created", seq: seq, isDryRun: true, arguments, console)
            }
        }
    }

    private typealias Feed = (definition: FeedDefinition, namespace: String)

    private static func read(_ arguments: ParsedArguments, _ console: Console) throws -> [Feed] {
        var feeds: [Feed] = []
        var names: Set<FeedName> = []
        for file in arguments.positionals {
            let text = try Files.read(file, maxBytes: 16 << 20, standardInput: console.input)
            for definition in try FeedDefinition.read(text, source: file) {
                let namespace = definition.namespace ?? DatabaseLocator.namespaceName(arguments)
                guard names.insert(FeedName(namespace: namespace, name: definition.name)).inserted else {
                    throw CommandFailure(
                        "Two of these feeds have the name \"\(definition.name)\" in namespace \"\(namespace)\".")
                }
                feeds.append((definition, namespace))
            }
        }
        return feeds
    }

    private static func action(_ applied: FeedAdministration.Applied) -> String {
        applied.isNew ? "created" : applied.isChanged ? "changed" : "unchanged"
    }

    private static func report(
        _ feed: Feed, _ action: String, seq: Int64?, isDryRun: Bool, _ arguments: ParsedArguments, _ console: Console
    ) {
        guard !arguments.has("json") else {
            return console.write(
                JSONOutput.object([
                    "namespace": .text(feed.namespace), "name": .text(feed.definition.name), "action": .text(action),
                    "seq": seq.map { .number($0) } ?? .null, "dryRun": .bool(isDryRun),
                ]).line)
        }
        let word = isDryRun && action != "unchanged" ? "would be \(action)" : action
        console.write(
            "\(word)  \(feed.namespace)  \(feed.definition.name)  \(feed.definition.pattern)"
                + (seq.map { "  seq \($0)" } ?? ""))
        let variables = feed.definition.destination?.variables.map(\.name) ?? []
        guard !variables.isEmpty, action != "unchanged" else { return }
        // The command can't read the environments of the gateways, one of which will deliver.
        let status = arguments.completing(
            "'pathmirror feed status \(feed.definition.name)\(Self.namespace(feed, arguments))'")
        console.error(
            "Every gateway needs \(variables.joined(separator: ", ")) in its environment. \(status) shows the feed as broken if the gateway that runs it lacks one."
        )
    }

    /// The option that names the feed's namespace, if the definition names another one than the command.
    private static func namespace(_ feed: Feed, _ arguments: ParsedArguments) -> String {
        feed.namespace == DatabaseLocator.namespaceName(arguments) ? "" : " --ns \(feed.namespace)"
    }
}
