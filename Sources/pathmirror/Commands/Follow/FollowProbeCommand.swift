import Follower
import Runtime

/// Tries an upstream without a database.
struct FollowProbeCommand: Command {
    static let specification = CommandSpecification(
        "follow probe", "tries what an account may do and how an upstream behaves; exits 1 if a follower can't work",
        options: [
            FollowOptions.upstream, FollowOptions.credentials,
            .init("write", nil, "also writes two small values at a new key of the root, and removes them again"),
            .init("until-expiry", nil, "also waits until the upstream ends a connection whose token has expired"),
            .json,
        ],
        notes: [
            "Without --write, the probe only reads. It reads little: a few shallow listings and one value of at most 256 kB, twice."
        ])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let address = try FollowOptions.address(arguments)
        let credentials = FollowOptions.chosenCredentials(arguments)
        try FollowOptions.withTools { tools in
            var probe = FollowProbe(address, credentials, tools) { try console.interruption.check() }
            var isGood = true
            try probe.run(writes: arguments.has("write"), untilExpiry: arguments.has("until-expiry")) { fact in
                if fact.isGood == false { isGood = false }
                guard arguments.has("json") else { return console.write("\(fact.name): \(fact.text)") }
                console.write(
                    JSONOutput.object([
                        "name": .text(fact.name), "text": .text(fact.text),
                        "good": fact.isGood.map(JSONOutput.bool) ?? .null,
                    ]).line)
            }
            if arguments.has("json") {
                console.write(
                    JSONOutput.object(["name": .text("cost"), "receivedBytes": .number(probe.receivedBytes)]).line)
            } else {
                console.write("cost: \(ByteCount.text(probe.receivedBytes)) received")
            }
            if !isGood { throw CommandEnd(1) }
        }
    }
}
