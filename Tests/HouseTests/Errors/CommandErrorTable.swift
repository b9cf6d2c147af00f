/// The causes and fixes of the errors with a type that commands print, and the exit codes. docs/reference/errors.md is printed from them
/// and from the sources.
enum CommandErrorTable {
    /// A type of errors.
    struct ErrorType {
        let title: String
        let name: String
        let file: String
        /// By case: code, cause and fix.
        let rows: [String: (code: String, cause: String, fix: String)]
    }

    static let types = [logStore, replay, undo, mirrors, feeds, follow, tls, server]

    private static let logStore = ErrorType(
        title: "The database and its log", name: "LogStoreError", file: "Sources/LogStore/LogStoreError.swift",
        rows: [
            "database": (
                "database",
                "PostgreSQL rejected a statement or the connection; the text is PostgreSQL's, with its SQLSTATE.",
                "Act on the text; [SQLSTATEs](sqlstates.md) lists Pathmirror's codes."
            ),
            "standby": (
                "database_standby", "The URL names a server that follows another.",
                "Connect to the primary, or promote the standby."
            ),
            "readOnly": (
                "database_read_only", "`default_transaction_read_only` is on.",
                "Set it to off for the server, database or role."
            ),
            "outdated": (
                "database_outdated", "A failover left the old primary running.",
                "Stop it; see [the runbook](../runbook.md#another-server-answers)."
            ),
            "anotherInstallation": (
                "database_replaced", "The address of a database leads to another database.",
                "Correct the address; see [the runbook](../runbook.md#another-server-answers)."
            ),
            "schemaMissing": (
                "schema_missing", "The database has no schema of Pathmirror, or an older one.",
                "`pathmirror migrate up`."
            ),
            "schemaTooNew": (
                "schema_too_new", "A newer version of Pathmirror has migrated the database.", "Use the newer version."
            ),
            "migrationChanged": (
                "migration_changed", "Another build of Pathmirror has migrated the database.", "Use that build."
            ),
            "functionsChanged": (
                "functions_changed", "The functions in the database are not those of this version.",
                "`pathmirror migrate up`."
            ),
            "unknownNamespace": (
                "namespace_unknown", "The database has no namespace of this name.",
                "`pathmirror namespace ls` lists them."
            ),
            "followsUpstream": (
                "namespace_follows", "The namespace [follows](follow.md#read-only-namespaces) another database.",
                "Write to the upstream, or end following: `pathmirror follow rm`."
            ),
            "misplaced": (
                "namespace_misplaced", "The namespace is in another database; the text names it.",
                "Connect to that database."
            ),
            "importConflict": (
                "import_conflict", "Another client wrote at the path during the import.",
                "Run the import again, as the text says."
            ),
            "corrupt": (
                "data_damaged", "The database has data that Pathmirror never writes.",
                "`pathmirror log verify`, then restore the namespace from a backup."
            ),
            "partMissing": (
                "log_part_missing", "Retention removed the entry during the read, or the database lost a part of it.",
                "Continue at the entry that the text names."
            ),
            "stopped": ("stopped", "The program was asked to stop.", "Run the command again."),
        ])

    private static let replay = ErrorType(
        title: "Earlier trees and replays", name: "ReplayError", file: "Sources/LogStore/Replay/ReplayError.swift",
        rows: [
            "notRetained": (
                "tree_not_retained", "Retention removed the entries that the tree needs.",
                "Choose a later seq; keep more for the future ([retention](../guides/replays.md#by-itself))."
            ),
            "beyondHead": ("seq_beyond_head", "The log ends before this seq.", "Choose a seq up to the head."),
            "badPosition": (
                "moment_invalid", "The argument is neither a seq nor a time.", "Use a form that the text names."
            ),
            "beforeTheLog": ("time_not_retained", "The time is before the retained log.", "Choose a later time."),
            "badLine": (
                "line_invalid", "A line of the input is not an entry.", "Correct the line, or export the log again."
            ),
            "pruned": (
                "pruned_during_read", "Retention removed an entry while the command read.", "Run the command again."
            ),
            "noSnapshot": (
                "snapshot_unknown", "The namespace has no snapshot at this seq.",
                "`pathmirror log snapshot --list` lists them."
            ),
            "notEmpty": (
                "namespace_not_empty", "The target of the replay has entries.", "Replay into a new namespace."
            ),
            "clocksDiffer": (
                "clocks_differ", "The age of entries is uncertain, so nothing was dropped.",
                "Set the clocks right, or use `--trust-clock`."
            ),
            "clockBehindLog": (
                "clock_set_back", "PostgreSQL's clock was set back, so nothing was dropped.",
                "Set the clock right, or use `--trust-clock`."
            ),
        ])

    private static let undo = ErrorType(
        title: "Undo", name: "UndoError", file: "Sources/LogStore/Replay/UndoError.swift",
        rows: [
            "beyondHead": ("undo_beyond_head", "The log ends before this entry.", "Choose a seq up to the head."),
            "notInLog": (
                "undo_pruned", "Retention removed the entry.", "Restore the path from a snapshot or a backup."
            ),
            "stateNotRetained": (
                "undo_state_pruned", "Retention removed the state before the entry.",
                "Restore the path from a snapshot or a backup."
            ),
            "rulesEntry": ("undo_rules", "The entry changed rules.", "`pathmirror rules rollback`."),
            "changedNothing": ("undo_nothing", "The entry changed no value.", "None."),
            "overwritten": (
                "undo_overwritten", "Later entries wrote at the same paths.",
                "Undo the later entries first, or restore one path ([undo](../guides/replays.md#undo-one-entry))."
            ),
            "tooLarge": (
                "undo_too_large", "The inverse is too large for one entry.", "Restore each path, as the text says."
            ),
        ])

    private static let mirrors = ErrorType(
        title: "Mirrors", name: "MirrorError", file: "Sources/Mirrors/Catalog/MirrorError.swift",
        rows: [
            "database": (
                "mirror_database", "PostgreSQL rejected a statement; the text is PostgreSQL's.", "Act on the text."
            ),
            "log": ("mirror_log", "An error of the log, as above.", "As above."),
            "table": (
                "mirror_table", "The table of the mirror rejects a write, for example because of a constraint.",
                "Repair the table; see [the runbook](../runbook.md#pathmirrormirrornotrunning)."
            ),
            "moved": ("mirror_changed", "Another process changed the mirror.", "Run the command again."),
            "held": ("mirror_held", "Another command or gateway works on the tables.", "Run the command again later."),
            "pruned": (
                "mirror_pruned", "Retention removed entries that the mirror has not read.",
                "`pathmirror replay mirror` rebuilds it."
            ),
            "unknownMirror": (
                "mirror_unknown", "The namespace has no mirror of this name.", "`pathmirror mirror ls` lists them."
            ),
            "refused": (
                "mirror_refused", "The definition or the table does not permit the change; the text says why.",
                "Act on the text."
            ),
            "definition": (
                "mirror_definition", "The definition has mistakes; the text names file, line and column.",
                "Correct the definition ([mirrors](mirrors.md))."
            ),
        ])

    private static let feeds = ErrorType(
        title: "Feeds", name: "FeedError", file: "Sources/Feeds/Administration/FeedAdministration.swift",
        rows: [
            "unknownFeed": (
                "feed_unknown", "The namespace has no feed of this name.", "`pathmirror feed ls` lists them."
            ),
            "notAdmitted": (
                "feed_token_old", "The token is for a removed feed.", "`pathmirror token mint --feed NAME`."
            ),
            "moving": ("namespace_moving", "The namespace moves to another database.", "Run the command again later."),
            "pruned": (
                "feed_seq_pruned", "Retention removed the entry.", "Begin with the oldest entry or with `snapshot`."
            ),
            "tooManyFeeds": ("feed_limit", "The namespace has too many feeds.", "`pathmirror feed rm`."),
            "differentPaths": (
                "feed_paths_differ", "The definition inherits from a feed with another path.",
                "Use the path of the other feed."
            ),
        ])

    private static let follow = ErrorType(
        title: "Following an upstream", name: "FollowError", file: "Sources/Follower/FollowError.swift",
        rows: [
            "invalidUpstream": (
                "upstream_invalid", "`--upstream` is no URL of a whole database.",
                "Correct it, as the text says ([form](follow.md#options-of-add))."
            ),
            "invalidCredentials": (
                "upstream_credentials", "The file can't be read, or is neither a service account nor one line.",
                "Correct the file, its mode or its name; see [credentials](follow.md#credentials)."
            ),
            "noToken": (
                "upstream_token", "The token endpoint is away, or refuses the account's key.",
                "See [the runbook](../runbook.md#the-follower-is-not-authenticated)."
            ),
            "refused": (
                "upstream_refused", "The account may not read, or the upstream answered with an error.",
                "See [the runbook](../runbook.md#the-upstream-denies-the-follower)."
            ),
            "listenRefused": (
                "upstream_listen_refused",
                "The account may not listen there, or the value is too large for one listen.",
                "See [the runbook](../runbook.md#the-upstream-denies-the-follower), or name a smaller part with `--path`."
            ),
            "credentialRefused": (
                "upstream_credential_refused", "The file belongs to another project, or its token has expired.",
                "See [the runbook](../runbook.md#the-follower-is-not-authenticated)."
            ),
            "unreachable": (
                "upstream_unreachable", "No connection, or no answer in time.",
                "Check the host and the network; see [hosts and ports](follow.md#hosts-and-ports)."
            ),
            "unexpected": (
                "upstream_unexpected", "The server is no Realtime Database, or redirects outside its domain.",
                "Correct the host of `--upstream`."
            ),
            "unsupportedRules": (
                "upstream_rules", "The upstream's rules have constructs that can't be evaluated here.",
                "Follow with `--keep-rules`, and set rules of your own."
            ),
        ])

    private static let tls = ErrorType(
        title: "Certificates", name: "TLSError", file: "Sources/TLS/TLSIdentity.swift",
        rows: [
            "certificate": (
                "tls_certificate", "The file has no certificate in PEM, or can't be read.",
                "Correct `--tls-certificate`."
            ),
            "key": (
                "tls_key", "The file has no key in PEM without a password, or can't be read.", "Correct `--tls-key`."
            ),
            "mismatch": (
                "tls_mismatch", "Certificate and key do not belong together.", "Install both files of one renewal."
            ),
            "authorities": (
                "tls_authorities", "The file of authorities is not PEM, or can't be read.", "Correct the file."
            ),
            "library": ("tls_library", "OpenSSL lacks memory or a feature.", "Install OpenSSL 3, or add memory."),
        ])

    private static let server = ErrorType(
        title: "The HTTP server", name: "HTTPServerError", file: "Sources/HTTPServer/Server/HTTPServer.swift",
        rows: [
            "invalidSettings": (
                "server_settings", "Options contradict each other.", "Change the options that the text names."
            ),
            "cannotListen": (
                "server_address", "The port is in use or reserved, or the machine lacks the address.",
                "Choose another port or address, or stop the other process."
            ),
            "cannotStartLoop": (
                "server_threads", "The system refused a thread or memory.", "Raise the limits of the unit or container."
            ),
        ])

    /// Types of errors with texts that have no rows, with the reason.
    static let without: [String: String] = [
        "CommandFailure": "a sentence of one command, which names the remedy",
        "ImportConflict": "LogStoreError.importConflict contains it", "JSONError": "names line and column of the input",
        "JSONRowReader.Failure": "names line and column of the input", "KeySetDocument.Failure": "goes to the log",
        "PrivateFile.Failure": "of the client library",
        "RulesError": "names line and column of the rules",
        "DefinitionError": "names file, line and column of a definition",
        "SinkError": "a mistake in a feed's definition",
        "ClusterError": "a sentence of dev about its own PostgreSQL, with the remedy",
        "CryptoError": "a sentence about a file with a key, which the command names",
        "JWTError": "token inspect explains it",
        "NoThread": "a sentence about memory", "ScratchFileError": "names the operation and the system's reason",
        "Mistake": "an HTTP answer of dev to the Functions emulator", "EngineError": "an HTTP answer",
        "FeedBusyError": "an HTTP answer", "FeedInvariantError": "goes to the log",
        "PageFileError": "goes to the log", "HTTPClientError": "a failed delivery of a feed",
        "NATSError": "a failed delivery of a feed", "KafkaError": "a failed delivery of a feed",
        "TransportClosure": "of the client library", "StorageError": "of the client library",
        "SQLiteError": "of the client library", "InvalidArgument": "of the client library",
        "SystemError": "of the client library",
    ]

    /// The meaning of each exit code, and the reaction of a script.
    static let exitCodes: [(code: Int, meaning: String, reaction: String)] = [
        (0, "The command is done; `diff`: the trees are equal.", "None."),
        (
            1,
            "The command failed, or a check found a problem (`log verify`, `doctor`, `mirror status`, `follow status`, `follow verify`); `diff`: the trees differ.",
            "Read standard error: the message states the failure and its remedy."
        ),
        (
            2, "The arguments are wrong; `diff`, `follow verify`: any failure.",
            "Correct the arguments: the message names the help."
        ),
        (129, "SIGHUP interrupted the command.", "Run it again ([Ctrl-C](command-line.md#ctrl-c))."),
        (130, "Ctrl-C interrupted the command.", "Run it again ([Ctrl-C](command-line.md#ctrl-c))."),
        (143, "SIGTERM interrupted the command.", "Run it again ([Ctrl-C](command-line.md#ctrl-c))."),
    ]
}
