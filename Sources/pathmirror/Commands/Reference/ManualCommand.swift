import Glibc

/// The pages of the manual.
struct ManualCommand: Command {
    static let specification = CommandSpecification(
        "man", "writes the manual's page of the program or of a command, or all pages into a folder",
        positionals: ["[COMMAND…]"], options: [.init("folder", "DIR", "where to write all pages; made if missing")],
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
            throw CommandFailure("\(folder) can't be made: \(String(cString: strerror(errno))).")
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
