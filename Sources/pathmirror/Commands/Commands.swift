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
            MirrorExportCommand.self, MirrorDbtCommand.self,
            FeedApplyCommand.self, FeedListCommand.self, FeedShowCommand.self, FeedStatusCommand.self,
            FeedSeekCommand.self, FeedDeadListCommand.self, FeedDeadRetryCommand.self, FeedDeadDropCommand.self,
            FeedRemoveCommand.self, NamespaceListCommand.self, NamespaceCreateCommand.self, NamespaceShowCommand.self,
            NamespaceRemoveCommand.self, NamespaceMoveCommand.self, DatabaseListCommand.self, DatabaseAddCommand.self,
            DatabaseDrainCommand.self, DatabaseRemoveCommand.self,
            DoctorCommand.self, HelpCommand.self, CompletionsCommand.self, ManualCommand.self, VersionCommand.self,
        ]
    }

    static func run(_ arguments: [String], _ console: Console, _ environment: Environment) -> Int32 {
        guard let first = arguments.first else {
            console.error(CommandHelp.overview())
            return 2
        }
        if ["--help", "-h"].contains(first) { return run(["help"], console, environment) }
        if first == "--version" { return run(["version"], console, environment) }
        guard let command = all.first(where: { arguments.starts(with: $0.specification.words) }) else {
            let (text, isHelp) = CommandHelp.unknown(arguments)
            console.write(isHelp ? TextWrap.help(text, to: console.outputWidth) : text, toError: !isHelp)
            return isHelp ? 0 : 2
        }
        return run(command, Array(arguments.dropFirst(command.specification.words.count)), console, environment)
    }

    private static func run(
        _ command: any Command.Type, _ arguments: [String], _ console: Console, _ environment: Environment
    ) -> Int32 {
        let specification = command.specification
        if let index = arguments.firstIndex(where: { ["--help", "-h"].contains($0) }) {
            let wantsAll = arguments.dropFirst(index + 1).first == "all"
            let help = wantsAll ? specification.fullHelp : specification.help
            console.write(TextWrap.help(help, to: console.outputWidth))
            return exitCode(0, command, console)
        }
        var known: ParsedArguments?
        do {
            let parsed = try ParsedArguments(arguments, specification, environment)
            known = parsed
            // Gateways have a log for it.
            if !specification.options.contains(where: { $0.name == "log-format" }),
                let warning = DatabaseWarning.ofCommandLine(parsed)
            {
                console.error("pathmirror: warning: \(warning).")
            }
            if !command.waitsForSignals { console.signals.interrupt(by: console.interruption) }
            try command.run(parsed, console)
            return exitCode(0, command, console)
        } catch {
            console.interruption.notice()
            let error = console.ending(error, command.whenInterrupted)
            let question = known.map { NameSuggestion.question(error, $0, console) } ?? ""
            return exitCode(tell(error, question, command, console), command, console)
        }
    }

    /// The exit code, unless results were lost on their way: that is a failure, however well the rest went.
    private static func exitCode(_ code: Int32, _ command: any Command.Type, _ console: Console) -> Int32 {
        // Gateways have a log, and go on where nobody reads what they say at the start.
        guard !command.waitsForSignals, let reason = console.outputFailure else { return code }
        console.error("pathmirror: standard output can't be written: \(reason).")
        return max(code, command.failureCode)
    }

    /// Says why a command has ended.
    ///
    /// - Parameter question: what is asked behind it, if anything.
    /// - Returns: its exit code.
    private static func tell(
        _ error: any Error, _ question: String, _ command: any Command.Type, _ console: Console
    ) -> Int32 {
        switch error {
        case let end as CommandEnd:
            if let message = end.message { console.error("pathmirror: \(message)") }
            return end.exitCode
        case let error as UsageError:
            let name = command.specification.name
            console.error("pathmirror \(name): \(error.message) Try 'pathmirror \(name) --help'.")
            return 2
        default:
            console.error("pathmirror: \(MissingRight.text(error) ?? "\(error)\(question)")")
            return command.failureCode
        }
    }
}
