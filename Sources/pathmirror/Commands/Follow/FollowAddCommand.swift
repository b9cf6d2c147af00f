import Follower
import LogStore
import Rules
import Runtime

/// Makes a namespace follow an upstream, after checking that it can.
struct FollowAddCommand: Command {
    static let specification = CommandSpecification(
        "follow add", "makes a namespace follow a live Realtime Database; clients can then only read the namespace",
        positionals: ["NS"],
        options: [
            FollowOptions.upstream, FollowOptions.credentials,
            .init("keep-rules", nil, "keeps the namespace's own rules; default: the upstream's rules are adopted"),
            .init(
                "max-bytes-per-day", "SIZE",
                "stops for the rest of the day (UTC) after receiving so much, such as 20GB; default no limit"),
            .init("replace", nil, "replaces the data that the namespace has"),
            .json,
        ] + DatabaseLocator.options,
        notes: [
            "Gateways read the file of credentials themselves, each time they sign in: it must have the same name on every gateway. "
                + "The database stores only its name."
        ])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let name = try NamespaceOptions.name(arguments)
        let address = try FollowOptions.address(arguments)
        let credentials = FollowOptions.chosenCredentials(arguments)
        let keepsRules = arguments.has("keep-rules")
        let most = try arguments.size("max-bytes-per-day", in: 1...Int.max).map { Int64($0) }
        let connection = try FollowOptions.connection(arguments, console, "follow")
        defer { connection.close() }
        try FollowOptions.withTools { tools in
            var check = UpstreamCheck(address, credentials, tools)
            _ = try check.access()
            if !keepsRules { try checkRules(&check, console) }
            if let most {
                let estimate = try check.estimate()
                guard estimate <= most else {
                    throw CommandFailure(
                        "The upstream has about \(ByteCount.text(estimate)), more than --max-bytes-per-day. Nothing was changed.")
                }
            }
        }
        let added = try connection.addFollow(
            namespace: name, upstream: address.description, credentials: credentials.stored, keepRules: keepsRules,
            maxBytesPerDay: most, replaces: arguments.has("replace"))
        switch added {
        case .added: break
        case .alreadyFollows:
            throw CommandFailure(
                "Namespace \"\(name)\" already follows an upstream. To follow another one: pathmirror follow rm \(name)")
        case .hasData:
            throw CommandFailure(
                "Namespace \"\(name)\" has data. Use another namespace, or add --replace to replace its data by the upstream's.")
        }
        guard !arguments.has("json") else {
            return console.write(
                JSONOutput.object([
                    "namespace": .text(name), "upstream": .text(address.description), "keepRules": .bool(keepsRules),
                ]).line)
        }
        console.write("Namespace \"\(name)\" follows \(address). Clients can now only read it.")
        console.write("See its progress: pathmirror follow status. To end it: pathmirror follow rm \(name)")
    }

    private static func checkRules(_ check: inout UpstreamCheck, _ console: Console) throws {
        let source: [UInt8]
        do {
            source = try check.rules()
        } catch FollowError.refused(let status, _, let reason) {
            throw CommandFailure(
                "The upstream's rules can't be read with these credentials (status \(status): \(reason)). Add --keep-rules to keep "
                    + "rules of your own, or grant the account roles/firebasedatabase.viewer.")
        }
        do throws(RulesError) {
            for warning in try RuleSet(json: source, keepsWarnings: true).warnings {
                console.error("pathmirror: warning: rules \(warning)")
            }
        } catch {
            throw CommandFailure(
                "The upstream's rules have parts that can't be evaluated here:\n\(error)\nAdd --keep-rules to keep rules of your own.")
        }
    }
}
