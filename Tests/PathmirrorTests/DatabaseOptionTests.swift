import Mirrors
import Postgres
import Runtime
import Testing

@testable import pathmirror

/// Checks that commands find the intended database, and warn about connections that an attacker could intercept.
@Suite struct DatabaseOptionTests {
    private static func parsed(_ arguments: [String], _ environment: [String: String] = [:]) throws -> ParsedArguments {
        try ParsedArguments(
            arguments,
            CommandSpecification(
                "x", "", options: DatabaseLocator.options + [.init("ns", "NAME", "")]),
            Environment(values: environment))
    }

    @Test func byItsURL() throws {
        let url = try PostgresURL("postgresql://u@h:5/d")
        #expect(try DatabaseLocator.primary(Self.parsed(["--database-url", "postgresql://u@h:5/d"])) == url)
        #expect(
            try DatabaseLocator.primary(Self.parsed([], ["PATHMIRROR_DATABASE_URL": "host=h port=5 user=u dbname=d"]))
                == url)
        // A URL has precedence over a folder.
        #expect(
            try DatabaseLocator.primary(Self.parsed(["--database-url", "postgresql://u@h:5/d", "--data", "/nowhere"]))
                == url)
    }

    @Test func byAFileWithItsURL() throws {
        let folder = try ScratchFolder()
        let file = try folder.file("url", "postgresql://u:hunter2@h:5/d\r\nmore\n")
        let url = try PostgresURL("postgresql://u:hunter2@h:5/d")
        #expect(try DatabaseLocator.primary(Self.parsed(["--database-url-file", file])) == url)
        #expect(try DatabaseLocator.primary(Self.parsed([], ["PATHMIRROR_DATABASE_URL_FILE": file])) == url)
        let other = "postgresql://other/d"
        // The command line has precedence over the environment, for both options.
        #expect(
            try DatabaseLocator.primary(Self.parsed(["--database-url-file", file], ["PATHMIRROR_DATABASE_URL": other]))
                == url)
        #expect(
            try DatabaseLocator.primary(Self.parsed(["--database-url", other], ["PATHMIRROR_DATABASE_URL_FILE": file]))
                == PostgresURL(other))
        let error = #expect(throws: UsageError.self) {
            try DatabaseLocator.primary(Self.parsed(["--database-url-file", file, "--database-url", other]))
        }
        #expect(error?.message == "Give either --database-url or --database-url-file.")
    }

    @Test func aFileWithoutAURL() throws {
        let folder = try ScratchFolder()
        let file = try folder.file("url", "\npostgresql://u@h/d")
        let error = #expect(throws: CommandFailure.self) {
            try DatabaseLocator.primary(Self.parsed(["--database-url-file", file]))
        }
        #expect(error?.description == "The first line of \(file) has no URL.")
        #expect(throws: CommandFailure.self) {
            try DatabaseLocator.primary(Self.parsed(["--database-url-file", "\(folder.path)/none"]))
        }
    }

    /// Checks that a password that others can read is reported, only then, and without repeating it.
    @Test(arguments: [
        ("postgresql://u:hunter2@127.0.0.1:1/d", true), ("host=127.0.0.1 port=1 password=hunter2", true),
        ("postgresql://127.0.0.1:1/d?password=hunter2", true), ("postgresql://u@127.0.0.1:1/d", false),
        ("host=127.0.0.1 port=1 passfile=/x", false),
    ]) func passwordsOnTheCommandLine(_ url: String, _ isWarned: Bool) throws {
        let run = try pathmirror(["log", "ls", "--database-url", url])
        #expect(run.exitCode == 1)
        #expect(
            run.errors.hasPrefix(
                "pathmirror: warning: every user of this machine can read a password on the command line") == isWarned)
        #expect(run.errors.contains("--database-url-file") == isWarned)
        #expect(!run.errors.contains("hunter2"))
        #expect(
            !(try pathmirror(["log", "ls"], environment: ["PATHMIRROR_DATABASE_URL": url]).errors.contains("warning")))
        let folder = try ScratchFolder()
        let file = try folder.file("url", url)
        #expect(!(try pathmirror(["log", "ls", "--database-url-file", file]).errors.contains("warning")))
    }

    /// Arguments are as visible as options. The primary database is unavailable, so nothing more happens.
    @Test(arguments: [
        ("postgresql://u:hunter2@127.0.0.1:1/d", true), ("host=127.0.0.1 port=1 dbname=d password=hunter2", true),
        ("postgresql://u@127.0.0.1:1/d", false),
    ]) func passwordsInArguments(_ url: String, _ isWarned: Bool) throws {
        let folder = try ScratchFolder()
        let primary = try folder.file("url", "postgresql://u@127.0.0.1:1/home")
        let run = try pathmirror(["database", "add", "b", url, "--database-url-file", primary])
        #expect(run.exitCode == 1)
        #expect(
            run.errors.hasPrefix(
                "pathmirror: warning: every user of this machine can read a password on the command line") == isWarned)
        for word in ["--database-url-file", "PGPASSFILE"] { #expect(run.errors.contains(word) == isWarned) }
        #expect(!run.errors.contains("hunter2"))
    }

    /// Every command with an option for a URL has one for a file with the URL.
    @Test func everyCommandTakesAFile() {
        for command in Commands.all {
            let options = command.specification.options.map(\.name)
            #expect(
                options.contains("database-url") == options.contains("database-url-file"),
                "\(command.specification.name)")
        }
    }

    @Test func byAFolderWithNothingInIt() throws {
        let folder = try ScratchFolder()
        let error = #expect(throws: CommandFailure.self) {
            try DatabaseLocator.primary(Self.parsed(["--data", folder.path]))
        }
        #expect(error?.description.contains("or --data with the directory of a running 'pathmirror dev'") == true)
        #expect(error?.description.contains("(\(folder.path) has none)") == true)
    }

    @Test(
        arguments: [
            ([], "default"), (["--ns", "a"], "a"), (["--ns", "a,b"], "a"), (["--ns", ""], "default"),
            (["--ns", ",b"], "b"),
        ] as [([String], String)])
    func namespaces(_ arguments: [String], _ name: String) throws {
        #expect(DatabaseLocator.namespaceName(try Self.parsed(arguments)) == name)
    }

    @Test(arguments: [
        ("host=/run/postgresql", false), ("host=127.0.0.1", false), ("host=localhost", false),
        ("postgresql://u:hunter2@db.example/x", true), ("postgresql://db.example/x?sslmode=require", true),
        ("postgresql://db.example/x?sslmode=verify-full&sslrootcert=/x", false),
    ]) func unverified(_ text: String, _ isWarned: Bool) throws {
        let log = try ScratchFile()
        DatabaseWarning.log(try PostgresURL(text), Logger(format: .json, descriptor: log.descriptor))
        #expect(log.text.isEmpty != isWarned)
        guard isWarned else { return }
        let line = try JSONText(reading: log.text)
        #expect(line["level"] == "warning")
        #expect(line["hosts"] == "db.example")
        #expect(line["fix"]?.string?.contains("sslmode=verify-full") == true)
        #expect(!log.text.contains("hunter2"))
    }
}

/// Checks the texts of a mirror's build progress, and that they are rare.
@Suite struct BuildProgressTests {
    @Test(
        arguments: [
            (MirrorBuilder.Progress.removedLeftover, "removed the rest of an interrupted build"),
            (.copying(rows: 5_000), "5000 rows, 1000 a second"), (.indexing, "making indexes"),
            (.catchingUp(seq: 3, head: 9), "catching up: seq 3 of 9"), (.verifying(rows: 7), "comparing: 7 rows"),
            (.swapping, "swapping"),
        ] as [(MirrorBuilder.Progress, String)]) func phases(_ phase: MirrorBuilder.Progress, _ text: String) throws
    {
        let time = ManualClock()
        let descriptors = try Descriptors()
        let progress = BuildProgress(descriptors.console(), "posts", isQuiet: false, time.clock)
        progress.update(phase)
        #expect(descriptors.errors.text.isEmpty)
        time.advance(5_000)
        progress.update(phase)
        #expect(descriptors.errors.text == "posts: \(text)\n")
        progress.update(phase)
        progress.end()
        #expect(descriptors.errors.text == "posts: \(text)\n")
        let quiet = try Descriptors()
        let silent = BuildProgress(quiet.console(), "posts", isQuiet: true, time.clock)
        time.advance(5_000)
        silent.update(phase)
        #expect(quiet.errors.text.isEmpty)
    }
}
