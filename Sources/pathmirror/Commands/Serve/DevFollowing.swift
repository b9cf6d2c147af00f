import Follower
import LogStore

/// The option `--follow` of `dev`: makes its namespace follow an upstream with the rules of `dev`, so that programs on this
/// machine can read it.
struct DevFollowing {
    static let options: [OptionSpecification] = [
        .init(
            "follow", "URL",
            "the Realtime Database that the namespace follows; clients can then only read the namespace"),
        FollowOptions.credentials,
    ]

    private let namespace: String
    private let upstream: UpstreamAddress
    /// Nil if the option is not given.
    private let credentials: UpstreamCredentials?

    /// Returns nil without the option.
    init?(_ arguments: ParsedArguments, _ namespace: String) throws {
        guard let text = arguments["follow"] else {
            guard arguments.source(FollowOptions.credentials.name) != .commandLine else {
                throw UsageError("--credentials needs --follow.")
            }
            return nil
        }
        guard arguments["import"] == nil else {
            throw UsageError("Give either --follow or --import: a namespace that follows has the upstream's data.")
        }
        self.namespace = namespace
        upstream = try UpstreamAddress(text)
        credentials = arguments[FollowOptions.credentials.name].map { _ in FollowOptions.chosenCredentials(arguments) }
    }

    /// Makes the namespace follow, or continues if it follows this upstream already.
    ///
    /// - Throws: if the upstream can't be read, or the namespace has other data or another upstream.
    func begin(_ connection: LogConnection, _ console: Console) throws {
        guard let record = try connection.follow(namespace) else { return try add(connection, console) }
        guard record.upstream == upstream.description else {
            throw CommandFailure(
                "Namespace \"\(namespace)\" already follows \(record.upstream). Use another --ns or --data, or start without --follow "
                    + "and meanwhile run 'pathmirror follow rm \(namespace)'.")
        }
        guard let credentials, try UpstreamCredentials(stored: record.credentials) != credentials else { return }
        let follower = NewFollower(
            namespace: namespace, upstream: upstream, credentials: credentials, keepsRules: record.keepRules,
            maxBytesPerDay: record.maxBytesPerDay)
        try follower.check(console)
        _ = try connection.removeFollow(record.namespaceID)
        _ = try follower.add(connection, replaces: true)
    }

    private func add(_ connection: LogConnection, _ console: Console) throws {
        let follower = NewFollower(
            namespace: namespace, upstream: upstream, credentials: credentials ?? .none, keepsRules: true)
        try follower.check(console)
        switch try follower.add(connection, replaces: false) {
        case .added, .alreadyFollows: break
        case .hasData:
            throw CommandFailure(
                "Namespace \"\(namespace)\" has data. Use another --ns or --data. To replace its data by the upstream's, start without "
                    + "--follow, and meanwhile run: pathmirror follow add \(namespace) --upstream '\(upstream)'\((credentials ?? .none).option) --keep-rules --replace"
            )
        }
    }

    /// The lines about a namespace that follows an upstream.
    static func greeting(_ record: FollowRecord, _ address: String, _ arguments: ParsedArguments) -> String {
        let name = record.namespace
        let resume = record.isPaused ? "\n  \(arguments.completing("pathmirror follow resume \(name)"))" : ""
        return """
            pathmirror: namespace "\(name)" follows \(record.upstream)\(record.isPaused ? " and is paused" : ""); clients can only read it

              \(arguments.completing("pathmirror follow status \(name)"))\(resume)
              curl 'http://\(address)/.json?shallow=true'
              curl -N -H 'Accept: text/event-stream' http://\(address)/.json
            """
    }
}
