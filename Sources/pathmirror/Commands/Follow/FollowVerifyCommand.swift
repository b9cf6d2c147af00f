import Follower
import LogStore
import Runtime
import Tree

/// Compares a namespace with its upstream.
struct FollowVerifyCommand: Command {
    static let specification = CommandSpecification(
        "follow verify",
        "compares a namespace with its upstream by hashes; exits 1 if they differ, 2 if it can't compare",
        positionals: ["NS"], options: [.json] + DatabaseLocator.options)
    static let failureCode: Int32 = 2

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try FollowOptions.connection(arguments, console, "follow verify")
        defer { connection.close() }
        let record = try FollowOptions.record(arguments, connection)
        guard let namespace = try connection.namespace(named: record.namespace) else {
            throw LogStoreError.unknownNamespace(record.namespace)
        }
        let isJSON = arguments.has("json")
        let isDifferent = try FollowOptions.withTools { tools in
            var verification = try FollowVerification(connection, namespace, record, tools) {
                try console.interruption.check()
            }
            var isDifferent = false
            try verification.run { part, verdict in
                if case .different = verdict { isDifferent = true }
                console.write(isJSON ? json(part, verdict).line : text(part, verdict))
            }
            if !isJSON {
                console.write(
                    "received \(ByteCount.text(verification.receivedBytes)), sent \(ByteCount.text(verification.sentBytes))"
                )
            }
            return isDifferent
        }
        guard isDifferent else { return }
        if record.isPaused {
            console.error(
                "The namespace is paused: resume it with 'pathmirror follow resume \(record.namespace)', and verify again."
            )
        }
        throw CommandEnd(1)
    }

    private static func text(_ part: String, _ verdict: FollowVerification.Verdict) -> String {
        switch verdict {
        case .equal(let seq, true): return "\(part): equal at seq \(seq), by the upstream's hash"
        case .equal(let seq, false):
            return "\(part): equal at seq \(seq), by the upstream's data for what was being written"
        case .different(let seq, let paths, let count):
            let rest = count > paths.count ? "\n  and \(count - paths.count) more" : ""
            return "\(part): differs at seq \(seq), in \(Counted.text(Int64(count), "path")):\n"
                + paths.map { "  \(TextWidth.plain($0.description))" }.joined(separator: "\n") + rest
        }
    }

    private static func json(_ part: String, _ verdict: FollowVerification.Verdict) -> JSONOutput {
        switch verdict {
        case .equal(let seq, let isByHash):
            .object(["part": .text(part), "equal": .bool(true), "seq": .number(seq), "byHash": .bool(isByHash)])
        case .different(let seq, let paths, let count):
            .object([
                "part": .text(part), "equal": .bool(false), "seq": .number(seq), "count": .number(Int64(count)),
                "paths": .list(paths.map { .text($0.description) }),
            ])
        }
    }
}
