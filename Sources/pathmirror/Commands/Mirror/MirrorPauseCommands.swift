import LogStore
import Mirrors

struct MirrorPauseCommand: Command {
    static let specification = CommandSpecification(
        "mirror pause", "stops a mirror's following of the log; its table stays", positionals: ["NAME"],
        options: [MirrorOptions.namespace] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        try MirrorSwitch.set(arguments, console, isPaused: true)
    }
}

struct MirrorResumeCommand: Command {
    static let specification = CommandSpecification(
        "mirror resume", "lets a paused mirror follow the log again", positionals: ["NAME"],
        options: [MirrorOptions.namespace] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        try MirrorSwitch.set(arguments, console, isPaused: false)
    }
}

private enum MirrorSwitch {
    static func set(_ arguments: ParsedArguments, _ console: Console, isPaused: Bool) throws {
        let administration = try MirrorOptions.administration(arguments, console)
        defer { administration.close() }
        let mirror = try MirrorOptions.mirror(arguments, administration)
        try administration.setPaused(mirror, isPaused)
    }
}
