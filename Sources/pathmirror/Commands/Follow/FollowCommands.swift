import Follower
import LogStore

struct FollowPauseCommand: Command {
    static let specification = CommandSpecification(
        "follow pause", "disconnects a namespace from its upstream; its data stays, and clients still can't write",
        positionals: ["NS"], options: DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        try FollowSwitch.set(arguments, console, isPaused: true)
    }
}

struct FollowResumeCommand: Command {
    static let specification = CommandSpecification(
        "follow resume", "connects a paused namespace to its upstream again; what was missed becomes one entry",
        positionals: ["NS"], options: DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        try FollowSwitch.set(arguments, console, isPaused: false)
    }
}

private enum FollowSwitch {
    static func set(_ arguments: ParsedArguments, _ console: Console, isPaused: Bool) throws {
        let connection = try FollowOptions.connection(arguments, console, "follow")
        defer { connection.close() }
        let record = try FollowOptions.record(arguments, connection)
        guard record.isPaused != isPaused else {
            return console.write("Namespace \"\(record.namespace)\" is \(isPaused ? "paused already" : "not paused").")
        }
        _ = try connection.setFollowPaused(record.namespaceID, isPaused)
        let reverse = isPaused ? "resume" : "pause"
        console.write(
            "Namespace \"\(record.namespace)\" \(isPaused ? "is paused" : "follows again"). To reverse it: pathmirror follow "
                + "\(reverse) \(record.namespace)")
    }
}

/// Ends following. The data stays.
struct FollowRemoveCommand: Command {
    static let specification = CommandSpecification(
        "follow rm", "ends following: the namespace keeps its data and rules, and clients can write to it",
        positionals: ["NS"], options: [Confirmation.option] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try FollowOptions.connection(arguments, console, "follow")
        defer { connection.close() }
        let record = try FollowOptions.record(arguments, connection)
        try Confirmation.require(
            "End following \(record.upstream)? Clients can then write to \"\(record.namespace)\", and it no longer receives changes.",
            "Add --yes to end following without being asked.", arguments, console)
        _ = try connection.removeFollow(record.namespaceID)
        let credentials = (try? UpstreamCredentials(stored: record.credentials))?.option ?? ""
        let rules = record.keepRules ? " --keep-rules" : ""
        let limit = record.maxBytesPerDay.map { " --max-bytes-per-day \($0)" } ?? ""
        console.write(
            "Namespace \"\(record.namespace)\" no longer follows. Within a second, clients can write to it as its rules permit."
        )
        console.write(
            "To follow again: pathmirror follow add \(record.namespace) --upstream '\(record.upstream)'\(credentials)\(rules)\(limit) "
                + "--replace")
    }
}
