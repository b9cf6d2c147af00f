/// What a shell needs to complete this program's commands.
struct CompletionsCommand: Command {
    static let specification = CommandSpecification(
        "completions", "writes the script by which a shell completes commands, options and files",
        positionals: ["bash|zsh|fish"], options: [OutputFile.option],
        notes: [
            "'make install' and the Debian package put the scripts where the shells look. For one session: source <(pathmirror completions bash)."
        ])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let script: String
        switch arguments.positionals[0] {
        case "bash": script = BashCompletion.script(CommandHelp.tree)
        case "zsh": script = ZshCompletion.script(CommandHelp.tree)
        case "fish": script = FishCompletion.script(CommandHelp.tree)
        case let other: throw UsageError("\"\(other)\" is none of bash, zsh and fish.")
        }
        let output = try OutputFile(arguments["output"], standardOutput: console.output)
        try output.write(Array((script.hasSuffix("\n") ? script : script + "\n").utf8))
        try output.finish()
    }
}
