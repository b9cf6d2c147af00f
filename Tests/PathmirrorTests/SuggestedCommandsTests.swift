import Testing

@testable import pathmirror

/// Checks that a suggested command can be pasted: it names the namespace and the data directory of the command that printed it.
@Suite struct SuggestedCommandsTests {
    private static let all = ["--ns", "shop", "--data", ".dev"]

    private static func completed(
        _ text: String, _ arguments: [String] = all, environment: [String: String] = [:]
    ) throws -> String {
        try ParsedArguments(arguments, RulesClearCommand.specification, Environment(values: environment))
            .completing(text)
    }

    @Test(arguments: [
        ("See 'pathmirror rules history'.", "See 'pathmirror rules history --ns shop --data .dev'."),
        (
            "'pathmirror mirror errors a', then 'pathmirror mirror errors b'",
            "'pathmirror mirror errors a --ns shop --data .dev', then 'pathmirror mirror errors b --ns shop --data .dev'"
        ),
        // Options of the suggestion itself.
        ("'pathmirror mirror errors a --ns b'", "'pathmirror mirror errors a --ns b --data .dev'"),
        // A command without --ns.
        ("'pathmirror database ls'", "'pathmirror database ls --data .dev'"),
        // The end of a suggestion without quotation marks is unknown.
        ("pathmirror rules set --ns NAME FILE", "pathmirror rules set --data .dev --ns NAME FILE"),
        ("once\npathmirror mirror drop a --yes &&", "once\npathmirror mirror drop --ns shop --data .dev a --yes &&"),
        // Not a next step.
        ("of a running 'pathmirror dev'", "of a running 'pathmirror dev'"),
        ("'pathmirror serve --config' reads it", "'pathmirror serve --config' reads it"),
        ("Try 'pathmirror mirror drop --help'.", "Try 'pathmirror mirror drop --help'."),
        ("'pathmirror nonsense' and pathmirror: no", "'pathmirror nonsense' and pathmirror: no"),
        ("nothing", "nothing"), ("", ""),
    ]) func repeatsWhatWasGiven(_ text: String, _ wanted: String) throws {
        let completed = try Self.completed(text)
        #expect(completed == wanted)
        #expect(try Self.completed(completed) == wanted, "twice is once")
    }

    @Test func quotesForAShell() throws {
        #expect(
            try Self.completed("pathmirror rules history", ["--data", "my dir"])
                == "pathmirror rules history --data 'my dir'")
    }

    /// Options of the environment apply to the next command as well, and a URL may contain a password.
    @Test func leavesTheRestOut() throws {
        let text = "'pathmirror rules history'"
        #expect(try Self.completed(text, []) == text)
        #expect(try Self.completed(text, [], environment: ["PATHMIRROR_NS": "shop", "PATHMIRROR_DATA": "d"]) == text)
        #expect(try Self.completed(text, ["--database-url", "postgresql://a:b@c/d"]) == text)
    }

    /// Errors are completed in one function, results by the commands.
    @Test func ofCommands() throws {
        try withCommands { database throws in
            let folder = try ScratchFolder()
            try database.makeNamespace("shop")
            try database.set("/posts/a", #"{"starCount": "many"}"#, "shop")
            let mirror = #"{"name": "posts", "path": "/posts/{id}", "columns": {"starCount": "bigint"}}"#
            let apply = ["mirror", "apply", try folder.file("mirror.json", mirror), "--yes"]
            for words in [apply, ["replay", "mirror", "posts"]] {
                let run = try database.run(words + ["--ns", "shop"])
                #expect(run.output.contains("see 'pathmirror mirror errors posts --ns shop'"), "\(run.output)")
            }
            // The definition names the namespace, and the command does not.
            let named = mirror.replacing(#"{"name""#, with: #"{"namespace": "shop", "name""#)
                .replacing("bigint", with: "boolean")
            let again = try database.output("mirror", "apply", try folder.file("named.json", named), "--yes")
            #expect(again.contains("see 'pathmirror mirror errors posts --ns shop'"), "\(again)")
            let rules = try database.failure("rules", "rollback", "7", "--ns", "shop")
            #expect(rules.contains("see 'pathmirror rules history --ns shop'."), "\(rules)")
            try database.json("rules", "set", "-", "--ns", "shop", input: RulesCommandTests.open)
            let cleared = try database.output("rules", "clear", "--ns", "shop")
            #expect(cleared.contains("'pathmirror rules rollback --ns shop' restores them."), "\(cleared)")
        }
    }
}
