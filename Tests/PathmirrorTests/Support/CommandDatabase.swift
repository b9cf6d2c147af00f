import LogStore
import Postgres
import TestSupport
import Testing

@testable import pathmirror

/// A migrated database of one test, and the program's commands on it.
struct CommandDatabase {
    let url: PostgresURL
    let connectionText: String

    init(_ url: PostgresURL) throws {
        self.url = url
        let socket = try TestCluster.socketPath()
        let folder = String(socket.dropLast("/.s.PGSQL.5432".count))
        connectionText =
            "host='\(folder)' port=5432 user=pathmirror dbname=\(url.databaseName ?? "")"
    }

    func run(
        _ arguments: [String], input: String = "", environment: [String: String] = [:],
        signals: any Signals = ScriptedSignals()
    ) throws -> CommandRun {
        try pathmirror(
            arguments + ["--database-url", connectionText], input: input, environment: environment, signals: signals)
    }

    /// Runs a command on a terminal on which `answer` is typed. The result's errors contain the terminal's text.
    func run(_ arguments: [String], answering answer: String) throws -> CommandRun {
        let terminal = try PseudoTerminal()
        let output = try ScratchFile()
        let console = Console(
            output: output.descriptor, errors: terminal.descriptor, input: terminal.descriptor,
            signals: ScriptedSignals())
        terminal.type(answer + "\n")
        let exitCode = Commands.run(
            arguments + ["--database-url", connectionText], console, Environment(values: [:]))
        return CommandRun(exitCode: exitCode, output: output.text, errors: terminal.shown)
    }

    /// Returns the output of a command that must succeed without a message on standard error.
    @discardableResult
    func output(
        _ arguments: String..., input: String = "", sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> String {
        let run = try run(arguments, input: input)
        #expect(run.exitCode == 0, "\(run.errors)", sourceLocation: sourceLocation)
        return run.output
    }

    /// Returns the JSON values, one a line, of a command that must succeed.
    @discardableResult
    func json(
        _ arguments: String..., input: String = "", sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> [JSONText] {
        let run = try run(arguments + ["--json"], input: input)
        #expect(run.exitCode == 0, "\(run.errors)", sourceLocation: sourceLocation)
        return try run.json()
    }

    /// Returns the message of a command that must fail with 1 and print no result.
    func failure(
        _ arguments: String..., input: String = "", sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> String {
        let run = try run(arguments, input: input)
        #expect(run.exitCode == 1, "\(run.output)", sourceLocation: sourceLocation)
        #expect(
            run.errors.hasPrefix("pathmirror: ") || run.errors.contains("\npathmirror: "),
            sourceLocation: sourceLocation)
        return run.errors
    }

    /// The tree that `export` writes.
    func tree(_ namespace: String = "default") throws -> JSONText {
        try JSONText(reading: try output("export", "--ns", namespace))
    }

    func execute(_ sql: String) throws {
        let connection = try PostgresConnection(url)
        defer { connection.close() }
        try connection.executeScript(sql)
    }

    /// The first column of the first row.
    func value(_ sql: String) throws -> String? {
        let connection = try PostgresConnection(url)
        defer { connection.close() }
        let rows = try connection.execute(sql)
        return rows.rowCount == 0 || rows.isNull(0, 0) ? nil : try rows.string(0, 0)
    }

    /// Writes with the SQL functions for applications: each call makes an entry.
    func set(_ path: String, _ json: String, _ namespace: String = "default") throws {
        try execute("select pathmirror.set('\(namespace)', '\(path)', '\(json)')")
    }

    func makeNamespace(_ name: String) throws {
        let connection = try LogConnection(url)
        defer { connection.close() }
        _ = try connection.namespace(named: name, creating: true)
    }
}

/// Runs `body` with a migrated database, and drops the database afterwards.
func withCommands(_ body: (CommandDatabase) throws -> Void) throws {
    try withDatabase { try body(CommandDatabase($0)) }
}

/// Runs `body` with a migrated database with eight entries in the namespace `default`; `pastTrees[seq]` is the tree after each.
func withHistory(_ body: (CommandDatabase) throws -> Void) throws {
    try withCommands { database throws in
        try database.makeNamespace("default")
        try database.execute(
            """
            select pathmirror.set('default', '/users', '{"ada": {"name": "Ada", "posts": 1}, "bob": {"name": "Bob"}}');
            select pathmirror.set('default', '/users/ada/posts', '2');
            select pathmirror.update('default', '/', '{"users/bob/posts": 1, "posts/1": {"by": "bob"}}');
            select pathmirror.set('default', '/posts/1', '{".value": "short", ".priority": 3}');
            select pathmirror.remove('default', '/users/bob');
            select pathmirror.set('default', '/list', '["a", null, "c"]');
            select pathmirror.remove('default', '/users/ada');
            select pathmirror.set('default', '/posts/2/deep', '{"x": true}');
            update pathmirror.log set committed_at = timestamptz '2026-01-31 12:00Z' + seq * interval '1 min';
            """)
        try body(database)
    }
}

let pastTrees: [JSONText] = [
    .null,
    ["users": ["ada": ["name": "Ada", "posts": 1], "bob": ["name": "Bob"]]],
    ["users": ["ada": ["name": "Ada", "posts": 2], "bob": ["name": "Bob"]]],
    [
        "posts": ["1": ["by": "bob"]],
        "users": ["ada": ["name": "Ada", "posts": 2], "bob": ["name": "Bob", "posts": 1]],
    ],
    [
        "posts": ["1": [".value": "short", ".priority": 3]],
        "users": ["ada": ["name": "Ada", "posts": 2], "bob": ["name": "Bob", "posts": 1]],
    ],
    ["posts": ["1": [".value": "short", ".priority": 3]], "users": ["ada": ["name": "Ada", "posts": 2]]],
    [
        "list": ["0": "a", "2": "c"], "posts": ["1": [".value": "short", ".priority": 3]],
        "users": ["ada": ["name": "Ada", "posts": 2]],
    ],
    ["list": ["0": "a", "2": "c"], "posts": ["1": [".value": "short", ".priority": 3]]],
    [
        "list": ["0": "a", "2": "c"],
        "posts": ["1": [".value": "short", ".priority": 3], "2": ["deep": ["x": true]]],
    ],
]
