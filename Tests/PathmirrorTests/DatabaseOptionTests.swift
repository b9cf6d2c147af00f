import Mirrors
import Postgres
import Runtime
import Testing

@testable import pathmirror

/// Goal: commands find the database that was meant, and a connection that anybody could listen to is warned of.
@Suite struct DatabaseOptionTests {
    private static func parsed(_ arguments: [String], _ environment: [String: String] = [:]) throws -> ParsedArguments {
        try ParsedArguments(
            arguments,
            CommandSpecification(
                "x", "", options: Database.options + [.init("dev-data", "DIR", ""), .init("ns", "NAME", "")]),
            Environment(values: environment))
    }

    @Test func byItsURL() throws {
        let url = try PostgresURL("postgresql://u@h:5/d")
        #expect(try Database.home(Self.parsed(["--database-url", "postgresql://u@h:5/d"])) == url)
        #expect(try Database.home(Self.parsed([], ["PATHMIRROR_DATABASE_URL": "host=h port=5 user=u dbname=d"])) == url)
        // A URL goes before a folder.
        #expect(
            try Database.home(Self.parsed(["--database-url", "postgresql://u@h:5/d", "--data", "/nowhere"])) == url)
    }

    @Test func byAFolderWithNothingInIt() throws {
        let folder = try ScratchFolder()
        for option in ["data", "dev-data"] {
            let error = #expect(throws: CommandFailure.self) {
                try Database.home(Self.parsed(["--\(option)", folder.path]), dataOption: option)
            }
            #expect(
                error?.description.contains("or --\(option) with the directory of a running 'pathmirror dev'") == true)
            #expect(error?.description.contains("(\(folder.path) has none)") == true)
        }
    }

    @Test(
        arguments: [
            ([], "default"), (["--ns", "a"], "a"), (["--ns", "a,b"], "a"), (["--ns", ""], "default"),
            (["--ns", ",b"], "b"),
        ] as [([String], String)])
    func namespaces(_ arguments: [String], _ name: String) throws {
        #expect(Database.namespaceName(try Self.parsed(arguments)) == name)
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

/// Goal: what a mirror's build is doing is told in the right words, seldom.
@Suite struct BuildProgressTests {
    @Test(
        arguments: [
            (MirrorBuilder.Progress.removedLeftover, "what an interrupted build had left was removed"),
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
