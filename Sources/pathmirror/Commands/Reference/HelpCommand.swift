/// Help as a command: of the program, of a group of commands, of one command.
struct HelpCommand: Command {
    static let specification = CommandSpecification(
        "help", "explains a command, or lists all", positionals: ["[COMMAND…]"], options: [])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let words = arguments.positionals.flatMap(CommandTree.words)
        guard !words.isEmpty else { return console.write(CommandHelp.overview()) }
        if let command = CommandHelp.tree.command(words) { return console.write(command.help) }
        if let group = CommandHelp.group(words.joined(separator: " ")) { return console.write(group) }
        let nearest = NearestWord.question(CommandHelp.tree.nearest(words))
        throw UsageError("there is no command \"\(words.joined(separator: " "))\".\(nearest)")
    }
}
