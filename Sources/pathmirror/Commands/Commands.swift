import Feeds
import LogStore
import Mirrors
import Postgres

/// All commands, and the dispatch from arguments to a command.
enum Commands {
    static var all: [any Command.Type] {
        [
            DevCommand.self, ServeCommand.self, MigrateUpCommand.self, MigrateStatusCommand.self, ImportCommand.self,
            ExportCommand.self, LogListCommand.self, LogShowCommand.self, LogTailCommand.self, LogVerifyCommand.self,
            LogBlameCommand.self, LogUndoCommand.self, LogSnapshotCommand.self, LogPruneCommand.self,
            RetentionSetCommand.self, RetentionListCommand.self, RetentionRemoveCommand.self, RetentionRunCommand.self,
            ReplayTreeCommand.self,
            ReplayLogCommand.self, ReplayApplyCommand.self, ReplayMirrorCommand.self, ReplayFeedCommand.self,
            DiffCommand.self,
            RulesGetCommand.self,
            RulesSetCommand.self, RulesCheckCommand.self, RulesTestCommand.self, RulesHistoryCommand.self,
            RulesRollbackCommand.self, RulesClearCommand.self, RulesExplainCommand.self, TokenMintCommand.self,
            TokenInspectCommand.self,
            MirrorApplyCommand.self, MirrorInferCommand.self, MirrorListCommand.self, MirrorStatusCommand.self,
            MirrorPauseCommand.self, MirrorResumeCommand.self, MirrorDropCommand.self, MirrorErrorsCommand.self,
            MirrorExportCommand.self, MirrorDbtCommand.self,
            FeedApplyCommand.self, FeedListCommand.self, FeedShowCommand.self, FeedStatusCommand.self,
            FeedSeekCommand.self, FeedDeadListCommand.self, FeedDeadRetryCommand.self, FeedDeadDropCommand.self,
            FeedRemoveCommand.self, FollowAddCommand.self, FollowStatusCommand.self, FollowVerifyCommand.self,
            FollowProbeCommand.self, FollowPauseCommand.self, FollowResumeCommand.self, FollowRemoveCommand.self,
            NamespaceListCommand.self, NamespaceCreateCommand.self, NamespaceShowCommand.self,
            NamespaceRemoveCommand.self, NamespaceMoveCommand.self, DatabaseListCommand.self, DatabaseAddCommand.self,
            DatabaseDrainCommand.self, DatabaseRemoveCommand.self, ServiceAccountCreateCommand.self,
            ServiceAccountListCommand.self, ServiceAccountRotateCommand.self, ServiceAccountRemoveCommand.self,
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
            // Gateways write it to their log.
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
            return exitCode(report(error, question, command, console) { known?.completing($0) ?? $0 }, command, console)
        }
    }

    /// Returns the exit code. Lost results are a failure, even if the command succeeded.
    private static func exitCode(_ code: Int32, _ command: any Command.Type, _ console: Console) -> Int32 {
        // Gateways have a log, and keep running if their standard output is closed.
        guard !command.waitsForSignals, let reason = console.outputFailure else { return code }
        console.error("pathmirror: standard output can't be written: \(reason).")
        return max(code, command.failureCode)
    }

    /// Prints the reason that a command has ended.
    ///
    /// - Parameters:
    ///   - question: is appended, if not empty.
    ///   - completing: completes the commands that a message suggests.
    /// - Returns: its exit code.
    private static func report(
        _ error: any Error, _ question: String, _ command: any Command.Type, _ console: Console,
        completing: (String) -> String
    ) -> Int32 {
        switch error {
        case let end as CommandEnd:
            if let message = end.message { console.error("pathmirror: \(completing(message))") }
            return end.exitCode
        case let error as UsageError:
            let name = command.specification.name
            let all = command.specification.firstOptions.isEmpty ? "" : " all"
            console.error("pathmirror \(name): \(completing(error.message)) Try 'pathmirror \(name) --help\(all)'.")
            return 2
        default:
            let message = completing(MissingRight.text(error) ?? "\(error)\(question)")
            // A message may name keys, which clients choose.
            let lines = message.split(separator: "\n", omittingEmptySubsequences: false).map {
                TextWidth.plain(String($0))
            }
            console.error("pathmirror: \(lines.joined(separator: "\n"))")
            return command.failureCode
        }
    }
}

/// Suggests namespaces, mirrors or feeds with a name similar to one that does not exist.
enum NameSuggestion {
    /// ` Did you mean "shop"?`. Empty if no name is near, if the names can't be read, and for errors of another kind.
    static func question(_ error: any Error, _ arguments: ParsedArguments, _ console: Console) -> String {
        // The error is printed in any case. A failure here adds nothing.
        guard let (name, known) = try? candidates(error, arguments, console) else { return "" }
        if isOfNamespace(error), known.contains(name) {
            return " 'pathmirror namespace show \(name)' shows its database."
        }
        return NearestWord.question(NearestWord.all(name, among: known))
    }

    private static func isOfNamespace(_ error: any Error) -> Bool {
        switch error {
        case LogStoreError.unknownNamespace, MirrorError.log(.unknownNamespace), FeedError.unknownFeed: true
        default: false
        }
    }

    /// The name that does not exist, and the names that do.
    private static func candidates(
        _ error: any Error, _ arguments: ParsedArguments, _ console: Console
    ) throws -> (name: String, known: [String])? {
        switch error {
        case LogStoreError.unknownNamespace(let name), MirrorError.log(.unknownNamespace(let name)):
            return (name, try DatabaseLocator.namespaceNames(arguments, console))
        case MirrorError.unknownMirror(let name, let namespace):
            let connection = try DatabaseLocator.connection(arguments, console, "mirror", of: .of(namespace))
            defer { connection.close() }
            let mirrors = try connection.catalogMirrors().filter { $0.namespace == namespace }
            return (name, mirrors.map(\.name))
        case FeedError.unknownFeed(let feed):
            let connection = try DatabaseLocator.connection(arguments, console, "feed", of: .of(feed.namespace))
            defer { connection.close() }
            guard try connection.namespace(named: feed.namespace) != nil else {
                return (feed.namespace, try DatabaseLocator.namespaceNames(arguments, console))
            }
            let feeds = try FeedAdministration(connection).allFeeds().filter { $0.namespace == feed.namespace }
            return (feed.name, feeds.map(\.name))
        default: return nil
        }
    }
}

/// The message for a role that lacks a right on Pathmirror's own tables: it names the role that has the right, instead of the statement.
/// Rights on mirrors' tables are another role's to grant: their error is shown as is, unless PostgreSQL's hint names the privilege (see
/// `SchemaMaking`).
enum MissingRight {
    /// Returns nil for errors of another kind.
    static func text(_ error: any Error) -> String? {
        guard let cause = database(error), cause.sqlState == "42501", cause.kind != .connect else { return nil }
        // The hint names the privilege, and the role that can grant it.
        if let hint = cause.hint { return "\(cause.message): \(hint)." }
        return
            "\(cause.message). The database user of this command lacks a right that the owner of schema pathmirror has."
    }

    private static func database(_ error: any Error) -> PostgresError? {
        switch error {
        case LogStoreError.database(let error), MirrorError.log(.database(let error)): error
        case MirrorError.database(let error) where error.hint != nil: error
        case let error as PostgresError where error.hint != nil: error
        default: nil
        }
    }
}
