import Glibc

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

/// The pages of the manual.
struct ManualCommand: Command {
    static let specification = CommandSpecification(
        "man", "prints the manual page of the program or of a command, or writes all pages into a folder",
        positionals: ["[COMMAND…]"], options: [.init("folder", "DIR", "the folder for all pages; created if missing")],
        notes: ["To read a page that is not installed: pathmirror man log ls | man -l -."])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let words = arguments.positionals.flatMap(CommandTree.words)
        let version = VersionCommand.version
        if let folder = arguments["folder"] {
            guard words.isEmpty else { throw UsageError("--folder takes all pages: no COMMAND.") }
            return try writeAll(into: folder, version)
        }
        guard !words.isEmpty else { return write(ManualPage.overview(CommandHelp.tree, version: version), console) }
        guard let command = CommandHelp.tree.command(words), command.words.count == words.count else {
            let nearest = NearestWord.question(CommandHelp.tree.nearest(words))
            throw UsageError("there is no command \"\(words.joined(separator: " "))\".\(nearest)")
        }
        write(ManualPage.page(command, version: version), console)
    }

    private static func write(_ page: String, _ console: Console) { console.writeBytes(Array(page.utf8)) }

    private static func writeAll(into folder: String, _ version: String) throws {
        guard mkdir(folder, 0o755) == 0 || errno == EEXIST else {
            throw CommandFailure("\(folder) can't be created: \(String(cString: strerror(errno))).")
        }
        var pages = [("pathmirror", ManualPage.overview(CommandHelp.tree, version: version))]
        for command in CommandHelp.tree.specifications {
            pages.append((ManualPage.name(of: command), ManualPage.page(command, version: version)))
        }
        for (name, page) in pages {
            let output = try OutputFile("\(folder)/\(name).1", standardOutput: STDOUT_FILENO)
            try output.write(Array(page.utf8))
            try output.finish()
        }
    }
}

/// Prints the script with which a shell completes this program's commands.
struct CompletionsCommand: Command {
    static let specification = CommandSpecification(
        "completions", "prints the script with which a shell completes commands, options and files",
        positionals: ["bash|zsh|fish"], options: [OutputFile.option],
        notes: [
            "'make install' and the Debian package install the scripts for the shells. For one session: source <(pathmirror completions bash)."
        ])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let script: String
        switch arguments.positionals[0] {
        case "bash": script = BashCompletion.script(CommandHelp.tree)
        case "zsh": script = ZshCompletion.script(CommandHelp.tree)
        case "fish": script = FishCompletion.script(CommandHelp.tree)
        case let other: throw UsageError("\"\(other)\" is not bash, zsh or fish.")
        }
        let output = try OutputFile(arguments["output"], standardOutput: console.output)
        try output.write(Array((script.hasSuffix("\n") ? script : script + "\n").utf8))
        try output.finish()
    }
}

/// Help texts: for all commands, for a group, for one command, and for unknown words.
enum CommandHelp {
    static let tree = CommandTree(specifications: Commands.all.map { $0.specification })

    /// All commands.
    static func overview() -> String {
        var text =
            "Pathmirror: a replication gateway between the Firebase Realtime Database protocols and PostgreSQL.\n\n"
        text += "usage: pathmirror COMMAND [OPTION …]\n\n"
        let width = tree.specifications.map(\.name.count).max() ?? 0
        for specification in tree.specifications {
            let name = specification.name
            text += "  \(name)\(String(repeating: " ", count: width + 2 - name.count))\(specification.summary)\n"
        }
        text +=
            "\n'pathmirror help COMMAND' lists a command's options. Every option can be given as --name VALUE, in the\n"
        text +=
            "environment as PATHMIRROR_NAME, or, for 'dev' and 'serve', in a file of 'name = value' lines named by --config."
        return text
    }

    /// The commands whose names begin with these words, such as `feed` or `feed dead`; nil if there is none.
    static func group(_ name: String) -> String? {
        let members = tree.specifications.filter { $0.name.hasPrefix("\(name) ") }
        guard !members.isEmpty else { return nil }
        var text = "usage: pathmirror \(name) COMMAND [OPTION …]\n"
        let left = members.map { ([$0.name] + $0.positionals).joined(separator: " ") }
        let width = left.map(\.count).max() ?? 0
        for (left, member) in zip(left, members) {
            text += "\n  \(left)\(String(repeating: " ", count: width + 2 - left.count))\(member.summary)"
        }
        return text
    }

    /// Returns the message for words that name no command, with suggestions.
    ///
    /// - Returns: the text, and whether the user asked for help.
    static func unknown(_ arguments: [String]) -> (text: String, isHelp: Bool) {
        let words = Array(arguments.prefix { !$0.hasPrefix("-") })
        for count in stride(from: words.count, to: 0, by: -1) {
            let name = words.prefix(count).joined(separator: " ")
            guard let group = group(name) else { continue }
            guard let next = arguments.dropFirst(count).first else { return (group, false) }
            if ["--help", "-h", "help"].contains(next) { return (group, true) }
            let nearest = NearestWord.question(tree.nearest(Array(words)))
            return ("pathmirror: there is no command \"\(name) \(next)\".\(nearest)\n\n\(group)", false)
        }
        let nearest = NearestWord.question(tree.nearest(words.isEmpty ? Array(arguments.prefix(1)) : words))
        return (
            "pathmirror: there is no command \"\(arguments[0])\".\(nearest) Try 'pathmirror --help'.", false
        )
    }
}
