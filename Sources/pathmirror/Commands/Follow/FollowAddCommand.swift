import Follower
import LogStore
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
        let follower = NewFollower(
            namespace: name, upstream: try FollowOptions.address(arguments),
            credentials: FollowOptions.chosenCredentials(arguments), keepsRules: arguments.has("keep-rules"),
            maxBytesPerDay: try arguments.size("max-bytes-per-day", in: 1...Int.max).map { Int64($0) })
        let connection = try FollowOptions.connection(arguments, console, "follow")
        defer { connection.close() }
        let replaces = arguments.has("replace")
        if let obstacle = try connection.obstacle(toFollowing: name, replaces: replaces) {
            try confirm(obstacle, name)
        }
        try follower.check(console)
        try confirm(try follower.add(connection, replaces: replaces), name)
        guard !arguments.has("json") else {
            return console.write(
                JSONOutput.object([
                    "namespace": .text(name), "upstream": .text(follower.upstream.description),
                    "keepRules": .bool(follower.keepsRules),
                ]).line)
        }
        console.write("Namespace \"\(name)\" follows \(follower.upstream). Clients can now only read it.")
        console.write("See its progress: pathmirror follow status. To end it: pathmirror follow rm \(name)")
    }

    private static func confirm(_ addition: FollowAddition, _ name: String) throws {
        switch addition {
        case .added: break
        case .alreadyFollows:
            throw CommandFailure(
                "Namespace \"\(name)\" already follows an upstream. To follow another one: pathmirror follow rm \(name)"
            )
        case .hasData:
            throw CommandFailure(
                "Namespace \"\(name)\" has data. Use another namespace, or add --replace to replace its data by the upstream's."
            )
        }
    }
}
