import Feeds
import LogStore

struct FeedSeekCommand: Command {
    static let specification = CommandSpecification(
        "feed seek",
        "moves a feed to another position of the log: every message after it is delivered, possibly again; asks first",
        positionals: ["NAME"],
        options: [
            .init("seq", "SEQ", "delivers every entry after this one"),
            .init("time", "TIME", "delivers entries committed after this time; UTC if it has no zone"),
            .init(
                "to", "SEQ|TIME",
                "a seq, a time, or an age (1h, 2d), as above; or beginning, now, or snapshot: the present tree, then every change"
            ),
            Confirmation.option, FeedOptions.namespace, .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let start = try start(arguments)
        let name = try FeedOptions.name(arguments)
        try FeedOptions.administer(arguments, console, "feed seek", of: .of(name.namespace)) { administration, _ in
            let plan: FeedSeekPlan
            let seq: Int64
            do {
                plan = try administration.seekPlan(name, to: start)
                if plan.isNoticed {
                    let move = move(name, plan)
                    try Confirmation.require(
                        "Move \(move)?", "Add --yes to move \(move) without being asked.", arguments, console)
                }
                seq = try administration.seek(name, to: plan.isSnapshot ? .snapshot : .seq(plan.to)).seq
            } catch FeedError.pruned(let wanted, let oldest) {
                throw CommandFailure(
                    "Entry \(wanted) is not in the log any more; the oldest is \(oldest). Give --seq \(oldest - 1) to begin with that one, or --to snapshot."
                )
            }
            guard !arguments.has("json") else {
                return console.write(
                    JSONOutput.object([
                        "namespace": .text(name.namespace), "name": .text(name.name), "seq": .number(seq),
                        "previousSeq": .number(plan.from),
                    ]).line)
            }
            console.write(
                "\(name.name) is at seq \(seq): "
                    + (plan.isSnapshot
                        ? "the present tree is delivered, then every change."
                        : "every entry after it is delivered."))
            if plan.isNoticed { console.write(reversal(name, plan)) }
        }
    }

    /// `shop/orders from seq 40 to seq 160, which skips 120 entries`
    private static func move(_ name: FeedName, _ plan: FeedSeekPlan) -> String {
        var effects: [String] = []
        if plan.isSnapshot { effects.append("delivers the whole tree again") }
        if plan.skipped > 0 { effects.append("skips \(Counted.text(plan.skipped, "entry"))") }
        if plan.repeated > 0 { effects.append("delivers \(Counted.text(plan.repeated, "entry")) again") }
        let goal = plan.isSnapshot ? "a snapshot at seq \(plan.to)" : "seq \(plan.to)"
        return "\(name) from seq \(plan.from) to \(goal), which \(effects.joined(separator: " and "))"
    }

    private static func reversal(_ name: FeedName, _ plan: FeedSeekPlan) -> String {
        if plan.wasInSnapshot { return "To begin with a snapshot again: pathmirror feed seek \(name) --to snapshot" }
        guard plan.isRetained else {
            return "This cannot be reversed: entry \(plan.from + 1) is no longer in the log."
        }
        return "To reverse it: pathmirror feed seek \(name) --seq \(plan.from)"
    }

    private static func start(_ arguments: ParsedArguments) throws -> FeedDefinition.Start {
        let seq = try arguments.integer("seq", in: 0...Int(Int64.max))
        switch (seq, arguments["time"], arguments["to"]) {
        case (let seq?, nil, nil): return .seq(Int64(seq))
        case (nil, let time?, nil):
            guard case .time = try? SeqOrTime(argument: time) else {
                throw UsageError("--time: \"\(time)\" is not a time, such as 2026-01-31T12:00:00Z.")
            }
            return .time(time)
        case (nil, nil, "beginning"?): return .beginning
        case (nil, nil, "now"?): return .now
        case (nil, nil, "snapshot"?): return .snapshot
        case (nil, nil, let word?):
            switch try? SeqOrTime(argument: word) {
            case .seq(let seq): return .seq(seq)
            case .time(let time): return .time(time)
            case .head: return .now
            case nil: throw UsageError("--to: \"\(word)\" is not a seq, a time, beginning, now or snapshot.")
            }
        default: throw UsageError("Give one of --seq, --time and --to.")
        }
    }
}
