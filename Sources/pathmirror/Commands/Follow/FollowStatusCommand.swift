import Follower
import LogStore
import Runtime

/// Shows how the followers fare.
struct FollowStatusCommand: Command {
    static let specification = CommandSpecification(
        "follow status", "shows the namespaces that follow an upstream; exits 1 if one has a problem",
        positionals: ["[NS]"],
        options: [.json] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let subject = arguments.positionals.first.map { DatabaseLocator.Subject.of($0) } ?? .primary
        let connection = try DatabaseLocator.connection(arguments, console, "follow status", of: subject)
        defer { connection.close() }
        var followers = try followers(
            connection,
            arguments.positionals.isEmpty ? connection.follows() : [FollowOptions.record(arguments, connection)])
        var unread: [String] = []
        if arguments.positionals.isEmpty, arguments["in"] == nil {
            for database in try connection.databases() {
                do {
                    let other = try NamespaceOptions.database(database, connection, arguments, console)
                    defer { other.close() }
                    followers += try self.followers(other, other.follows())
                } catch {
                    try console.interruption.check()
                    unread.append("\(database.name) (\(error))")
                }
            }
        }
        for (record, head) in followers {
            let state = FollowStanding(record)
            if arguments.has("json") {
                console.write(json(record, state, head: head).line)
            } else {
                show(record, state, head: head, console)
            }
        }
        if !unread.isEmpty {
            throw CommandFailure("Databases that can't be read: \(unread.joined(separator: "; ")).")
        }
        if followers.isEmpty, !arguments.has("json") {
            console.error("No namespace follows an upstream. 'pathmirror follow add --help' shows how to begin.")
        }
        if let record = followers.first(where: { FollowStanding($0.record).isProblem })?.record {
            let standing = FollowStanding(record)
            throw CommandFailure(
                "Namespace \"\(record.namespace)\" \(standing.follows ? "follows, with a problem" : "does not follow"): "
                    + (standing.message ?? "see above."))
        }
    }

    private static func followers(
        _ connection: LogConnection, _ records: [FollowRecord]
    ) throws -> [(record: FollowRecord, head: Int64)] {
        let heads = try Dictionary(uniqueKeysWithValues: connection.allNamespaces().map { ($0.id, $0.head) })
        return records.map { ($0, heads[$0.namespaceID] ?? 0) }
    }

    private static func show(_ record: FollowRecord, _ state: FollowStanding, head: Int64, _ console: Console) {
        let status = record.status
        console.write("\(record.namespace): \(state.name)")
        console.write("  upstream     \(record.upstream)")
        if let message = state.message { console.write("  problem      \(TextWidth.plain(message))") }
        console.write("  head         seq \(head)")
        if let lag = status.lagMilliseconds { console.write("  lag          \(lag) ms at the last message") }
        if let at = status.lastMessageAt { console.write("  last message \(Timestamp.iso8601(unixMilliseconds: at))") }
        if let at = status.connectedSince, !state.isSilent {
            console.write("  connected    since \(Timestamp.iso8601(unixMilliseconds: at))")
        }
        console.write(
            "  received     \(ByteCount.text(status.receivedToday)) today, \(ByteCount.text(status.received)) in all"
                + (record.maxBytesPerDay.map { ", limit \(ByteCount.text($0)) a day" } ?? ""))
        console.write(
            "  entries      \(status.entries), \(status.resyncs) of them a first load or after a gap"
                + (status.lastResyncSeq.map { " (the last at seq \($0))" } ?? ""))
        let parts = status.parts.flatMap { FollowPlan.count(stored: $0) } ?? 1
        if parts > 1 {
            console.write("  parts        \(parts): messages are ordered and atomic within each part, not across parts")
        }
        if let gateway = record.gateway { console.write("  gateway      \(gateway)") }
    }

    private static func json(_ record: FollowRecord, _ state: FollowStanding, head: Int64) -> JSONOutput {
        let status = record.status
        return .object([
            "namespace": .text(record.namespace), "upstream": .text(record.upstream), "state": .text(state.name),
            "message": JSONOutput(state.message), "seq": .number(head),
            "lagMilliseconds": number(status.lagMilliseconds), "lastMessageAt": number(status.lastMessageAt),
            "connectedSince": number(status.connectedSince), "receivedToday": .number(status.receivedToday),
            "received": .number(status.received), "maxBytesPerDay": number(record.maxBytesPerDay),
            "entries": .number(status.entries), "resyncs": .number(status.resyncs),
            "lastResyncSeq": number(status.lastResyncSeq),
            "parts": status.parts.map { .raw(Array($0.utf8)) } ?? .null, "keepRules": .bool(record.keepRules),
            "paused": .bool(record.isPaused), "gateway": JSONOutput(record.gateway),
        ])
    }

    private static func number(_ value: Int64?) -> JSONOutput { value.map(JSONOutput.number) ?? .null }
}

/// The state of a follower as a command sees it.
struct FollowStanding {
    /// The time in which a gateway claims a new namespace.
    private static let startMilliseconds: Int64 = 10_000
    /// The time without a report after which no gateway seems to follow. Reports come once a second.
    private static let silenceMilliseconds: Int64 = 30_000

    let name: String
    let message: String?
    /// Whether an administrator has to act, or nothing works on the namespace.
    let isProblem: Bool
    /// Whether no gateway follows.
    var isSilent: Bool { name == Self.silent }
    /// Whether the data follows the upstream.
    var follows: Bool { name == FollowState.following.name }

    private static let silent = "not running"

    init(_ record: FollowRecord) {
        if record.isPaused {
            (name, message, isProblem) = ("paused", nil, false)
        } else if record.age < Self.startMilliseconds, record.fence == nil || record.reportAge == nil {
            (name, message, isProblem) = ("starting", nil, false)
        } else if record.fence == nil || record.reportAge.map({ $0 > Self.silenceMilliseconds }) ?? true {
            name = Self.silent
            message = "No gateway follows it: start a gateway on this database."
            isProblem = true
        } else {
            name = record.status.state
            message = record.status.message
            isProblem = record.status.message != nil
        }
    }
}
