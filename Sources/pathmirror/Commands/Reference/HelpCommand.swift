/// Help as a command: of the program, of a group of commands, of one command.
struct HelpCommand: Command {
    static let specification = CommandSpecification(
        "help", "explains a command, or lists all", positionals: ["[COMMAND…]"], options: [])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let words = arguments.positionals.flatMap(CommandTree.words)
        let show = { (text: String) in console.write(TextWrap.help(text, to: console.outputWidth)) }
        guard !words.isEmpty else { return show(CommandHelp.overview()) }
        if let command = CommandHelp.tree.command(words) {
            return show(words.dropFirst(command.words.count).first == "all" ? command.fullHelp : command.help)
        }
        if let group = CommandHelp.group(words.joined(separator: " ")) { return show(group) }
        let nearest = NearestWord.question(CommandHelp.tree.nearest(words))
        throw UsageError("there is no command \"\(words.joined(separator: " "))\".\(nearest)")
    }
}
