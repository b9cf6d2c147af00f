/// All commands, and the way from arguments to one of them.
enum Commands {
    static var all: [any Command.Type] {
        [
            DevCommand.self, ServeCommand.self, MigrateUpCommand.self, MigrateStatusCommand.self, ImportCommand.self,
            ExportCommand.self, LogListCommand.self, LogShowCommand.self, LogTailCommand.self, LogVerifyCommand.self,
            LogBlameCommand.self, LogSnapshotCommand.self, LogPruneCommand.self,
            RetentionSetCommand.self, RetentionListCommand.self, RetentionRemoveCommand.self, RetentionRunCommand.self,
            ReplayTreeCommand.self,
            ReplayLogCommand.self, ReplayApplyCommand.self, ReplayMirrorCommand.self, ReplayFeedCommand.self,
            DiffCommand.self,
            RulesGetCommand.self,
            RulesSetCommand.self, RulesCheckCommand.self, RulesTestCommand.self, RulesHistoryCommand.self,
            RulesRollbackCommand.self, RulesExplainCommand.self, TokenMintCommand.self, TokenInspectCommand.self,
            MirrorApplyCommand.self, MirrorInferCommand.self, MirrorListCommand.self, MirrorStatusCommand.self,
            MirrorPauseCommand.self, MirrorResumeCommand.self, MirrorDropCommand.self, MirrorErrorsCommand.self,
            FeedApplyCommand.self, FeedListCommand.self, FeedShowCommand.self, FeedStatusCommand.self,
            FeedSeekCommand.self, FeedDeadListCommand.self, FeedDeadRetryCommand.self, FeedDeadDropCommand.self,
            FeedRemoveCommand.self, NamespaceListCommand.self, NamespaceCreateCommand.self, NamespaceShowCommand.self,
            NamespaceRemoveCommand.self, DatabaseListCommand.self, DatabaseAddCommand.self, DatabaseDrainCommand.self,
            DoctorCommand.self, VersionCommand.self,
        ]
    }

    static func run(_ arguments: [String], _ console: Console, _ environment: Environment) -> Int32 {
        if arguments.isEmpty { return usage(console, toError: true) }
        if ["--help", "-h", "help"].contains(arguments[0]) { return usage(console, toError: false) }
        if arguments[0] == "--version" { return run(["version"], console, environment) }
        guard let command = find(arguments) else { return group(arguments, console) }
        let specification = command.specification
        do {
            let rest = Array(arguments.dropFirst(specification.name.split(separator: " ").count))
            if rest.contains("--help") || rest.contains("-h") {
                console.write(specification.help)
                return 0
            }
            try command.run(try ParsedArguments(rest, specification, environment), console)
            return 0
        } catch let error as UsageError {
            console.error(
                "pathmirror \(specification.name): \(error.message) Try 'pathmirror \(specification.name) --help'.")
            return 2
        } catch {
            console.error("pathmirror: \(error)")
            return 1
        }
    }

    private static func find(_ arguments: [String]) -> (any Command.Type)? {
        all.first { command in
            let words = command.specification.name.split(separator: " ").map(String.init)
            return arguments.count >= words.count && Array(arguments.prefix(words.count)) == words
        }
    }

    /// Says which commands begin with the words that were given, such as `feed` or `feed dead`.
    private static func group(_ arguments: [String], _ console: Console) -> Int32 {
        let words = arguments.prefix { !$0.hasPrefix("-") }
        for count in stride(from: words.count, to: 0, by: -1) {
            let name = words.prefix(count).joined(separator: " ")
            let members = all.map { $0.specification }.filter { $0.name.hasPrefix("\(name) ") }
            if members.isEmpty { continue }
            let next = arguments.dropFirst(count).first
            let wantsHelp = next.map { ["--help", "-h", "help"].contains($0) } ?? false
            var text = "usage: pathmirror \(name) COMMAND [OPTION …]\n"
            if let next, !wantsHelp { text = "pathmirror: there is no command \"\(name) \(next)\".\n\n\(text)" }
            let left = members.map { ([$0.name] + $0.positionals).joined(separator: " ") }
            let width = left.map(\.count).max() ?? 0
            for (left, member) in zip(left, members) {
                text += "\n  \(left)\(String(repeating: " ", count: width + 2 - left.count))\(member.summary)"
            }
            console.write(text, toError: !wantsHelp)
            return wantsHelp ? 0 : 2
        }
        console.error("pathmirror: there is no command \"\(arguments[0])\". Try 'pathmirror --help'.")
        return 2
    }

    private static func usage(_ console: Console, toError: Bool) -> Int32 {
        var text =
            "Pathmirror: a replication gateway between the Firebase Realtime Database protocols and PostgreSQL.\n\n"
        text += "usage: pathmirror COMMAND [OPTION …]\n\n"
        for command in all {
            let specification = command.specification
            let name = specification.name
            text += "  \(name)\(String(repeating: " ", count: max(2, 18 - name.count)))\(specification.summary)\n"
        }
        text +=
            "\n'pathmirror COMMAND --help' lists a command's options. Every option can be given as --name VALUE, in the\n"
        text += "environment as PATHMIRROR_NAME, or in a file of 'name = value' lines named by --config."
        console.write(text, toError: toError)
        return toError ? 2 : 0
    }
}
