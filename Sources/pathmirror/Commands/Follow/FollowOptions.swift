import Follower
import HTTPClient
import LogStore

/// Options and helpers of the commands `follow`.
enum FollowOptions {
    static let upstream = OptionSpecification(
        "upstream", "URL", "the database to follow, such as https://PROJECT-default-rtdb.firebaseio.com")
    static let credentials = OptionSpecification(
        "credentials", "FILE",
        "a service account's JSON file, or a file with a token or a database secret; \"owner\" for an emulator; \"none\""
    )

    static func address(_ arguments: ParsedArguments) throws -> UpstreamAddress {
        guard let text = arguments[upstream.name] else { throw UsageError("--upstream is needed.") }
        return try UpstreamAddress(text)
    }

    /// The credentials that gateways will read: a relative file name becomes absolute.
    static func chosenCredentials(_ arguments: ParsedArguments) -> UpstreamCredentials {
        let credentials = UpstreamCredentials(option: arguments[credentials.name])
        guard case .file(let file) = credentials else { return credentials }
        return .file(Files.absolute(file))
    }

    /// Runs a command's checks with an HTTP client and a transport of its own.
    static func withTools<Result>(_ body: (FollowTools) throws -> Result) throws -> Result {
        let client = try HTTPClient()
        defer { client.stop() }
        return try body(try FollowTools(client))
    }

    /// The namespace that the first argument names, and what it follows.
    static func record(
        _ arguments: ParsedArguments, _ connection: LogConnection
    ) throws -> FollowRecord {
        let name = try NamespaceOptions.name(arguments)
        guard let record = try connection.follow(name) else {
            guard try connection.namespace(named: name) != nil else { throw LogStoreError.unknownNamespace(name) }
            throw CommandFailure(
                "Namespace \"\(name)\" follows no upstream. 'pathmirror follow status' lists those that do.")
        }
        return record
    }

    static func connection(
        _ arguments: ParsedArguments, _ console: Console, _ purpose: String
    ) throws -> LogConnection {
        try DatabaseLocator.connection(
            arguments, console, purpose, of: .of(try NamespaceOptions.name(arguments)))
    }
}

extension UpstreamCredentials {
    /// The option of a command line that gives these credentials, with a space before it; empty for none.
    var option: String {
        switch self {
        case .file(let file): " --credentials '\(file)'"
        case .owner: " --credentials owner"
        case .none: ""
        }
    }
}
