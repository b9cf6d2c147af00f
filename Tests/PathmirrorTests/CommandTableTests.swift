import LogStore
import Testing

@testable import pathmirror

/// Checks that every command can be found, explains itself, and distinguishes usage errors from failures by its exit code.
@Suite struct CommandTableTests {
    static let names = Commands.all.map { $0.specification.name }

    @Test func everyCommandIsThereOnce() {
        #expect(Self.names.count == 78)
        #expect(Set(Self.names).count == Self.names.count)
        let groups = Set(Self.names.compactMap { $0.split(separator: " ").first.map(String.init) })
        #expect(
            groups == [
                "dev", "serve", "migrate", "import", "export", "log", "replay", "diff", "rules", "token", "mirror",
                "feed", "follow", "retention", "namespace", "database", "service-account", "doctor", "help",
                "completions", "man", "version",
            ])
    }

    @Test func noOptionIsThereTwice() {
        for command in Commands.all {
            let options = command.specification.options.map { $0.name }
            #expect(Set(options).count == options.count, "\(command.specification.name)")
            #expect(!options.contains("help"), "\(command.specification.name)")
        }
    }

    /// Checks that an option takes a value in every command, or in none.
    @Test func optionsTakeValuesEverywhereOrNowhere() {
        var takesValue: [String: Bool] = [:]
        for option in Commands.all.flatMap({ $0.specification.options }) {
            let known = takesValue.updateValue(option.value != nil, forKey: option.name)
            #expect(known == nil || known == (option.value != nil), "--\(option.name)")
        }
    }

    @Test(arguments: names, ["--help", "-h"]) func help(_ name: String, _ word: String) throws {
        let words = name.split(separator: " ").map(String.init)
        let run = try pathmirror(words + [word, "all"])
        #expect(run.exitCode == 0)
        #expect(run.errors.isEmpty)
        #expect(try pathmirror(["help"] + words + ["all"]).output == run.output)
        #expect(run.output.hasPrefix("usage: pathmirror \(name)"))
        let specification = try #require(Commands.all.first { $0.specification.name == name }).specification
        for option in specification.options {
            #expect(run.output.contains("\n  --\(option.name) ") || run.output.contains("\n  --\(option.name)\n"))
            #expect(!option.help.isEmpty && run.output.contains(option.help), "--\(option.name)")
        }
        #expect(run.output.hasSuffix("\n"))
    }

    /// A first deployment needs a dozen of the options of `serve`, which its help shows in groups.
    @Test(arguments: ["serve", "dev"]) func theHelpOfManyOptionsIsShort(_ name: String) throws {
        let specification = try #require(Commands.all.first { $0.specification.name == name }).specification
        let shown = try pathmirror([name, "--help"]).output.split(separator: "\n").filter { $0.hasPrefix("  --") }
        let wanted = specification.firstOptions.flatMap(\.names)
        #expect(shown.map { $0.dropFirst(4).prefix { $0 != " " } }.map(String.init) == wanted)
        #expect(try pathmirror(["help", name]).output == pathmirror([name, "--help"]).output)
    }

    /// Checks that the page for operators lists all options of gateways.
    @Test func thePageOfOptionsIsWhole() throws {
        let root = #filePath.split(separator: "/").dropLast(3).map { "/\($0)" }.joined()
        let page = String(decoding: try Files.read(root + "/docs/reference/options.md"), as: UTF8.self)
        let rows = page.split(separator: "\n").filter { $0.hasPrefix("| `--") && $0.contains("| `PATHMIRROR_") }
        let documented = Set(rows.map { String($0.dropFirst(5).prefix { $0 != " " && $0 != "`" }) })
        let options = ServeCommand.specification.options + DevCommand.specification.options
        #expect(documented == Set(options.map(\.name)))
        for option in options {
            let value = option.value.map { " \($0.replacing("|", with: "\\|"))" } ?? ""
            #expect(
                rows.contains { $0.hasPrefix("| `--\(option.name)\(value)` | `\(option.environmentName)` |") },
                "--\(option.name)\(value)")
        }
    }

    /// A request for help is answered even if other arguments are wrong.
    @Test(arguments: names) func helpGoesBeforeMistakes(_ name: String) throws {
        let run = try pathmirror(name.split(separator: " ").map(String.init) + ["--nonsense", "a", "b", "c", "--help"])
        #expect(run.exitCode == 0)
        #expect(run.errors.isEmpty)
    }

    @Test(arguments: names) func aMistakeIsReportedWithTheCommandsName(_ name: String) throws {
        let run = try pathmirror(name.split(separator: " ").map(String.init) + ["--nonsense"])
        #expect(run.exitCode == 2)
        #expect(run.output.isEmpty)
        #expect(
            run.errors
                == "pathmirror \(name): there is no option --nonsense. Try 'pathmirror \(name) \(Self.help(name))'.\n")
    }

    /// The option that shows all of a command's options.
    private static func help(_ name: String) -> String { ["dev", "serve"].contains(name) ? "--help all" : "--help" }

    @Test(arguments: [["--help"], ["-h"], ["help"]]) func overview(_ arguments: [String]) throws {
        let run = try pathmirror(arguments)
        #expect(run.exitCode == 0)
        #expect(run.errors.isEmpty)
        for command in Commands.all {
            #expect(run.output.contains("\n  \(command.specification.name)  "), "\(command.specification.name)")
            #expect(run.output.contains(command.specification.summary))
        }
    }

    @Test func nothingAtAllIsAMistake() throws {
        let run = try pathmirror([])
        #expect(run.exitCode == 2)
        #expect(run.output.isEmpty)
        #expect(run.errors.contains("usage: pathmirror COMMAND [OPTION …]"))
    }

    @Test(arguments: [
        ("nonsense", ""), ("logs", " Did you mean \"log\"?"), ("", ""), ("LOG", " Did you mean \"log\"?"),
        ("--nonsense", ""),
        ("sevre", " Did you mean \"serve\"?"), ("verify", " Did you mean \"log verify\" or \"follow verify\"?"),
        ("rm", " Did you mean \"retention rm\", \"feed rm\", \"follow rm\" or \"namespace rm\"?"),
        ("--verison", " Did you mean \"version\"?"),
    ]) func unknown(_ word: String, _ question: String) throws {
        let run = try pathmirror([word])
        #expect(run.exitCode == 2)
        #expect(run.output.isEmpty)
        #expect(run.errors == "pathmirror: there is no command \"\(word)\".\(question) Try 'pathmirror --help'.\n")
    }

    /// Checks the command `help` for a command, for a group, and for unknown words.
    @Test(arguments: names) func helpOf(_ name: String) throws {
        let words = name.split(separator: " ").map(String.init)
        let run = try pathmirror(["help"] + words)
        #expect(run.exitCode == 0)
        #expect(try run.output == pathmirror(words + ["--help"]).output)
        #expect(try run.output == pathmirror(["help", name]).output)
    }

    @Test func helpOfGroupsAndOfNothing() throws {
        #expect(try pathmirror(["help", "feed", "dead"]).output == pathmirror(["feed", "dead", "--help"]).output)
        for (words, question) in [
            (["nonsense"], ""), (["log", "lss"], " Did you mean \"log ls\"?"),
            (["mirrors"], " Did you mean \"mirror\"?"),
        ] {
            let run = try pathmirror(["help"] + words)
            #expect(run.exitCode == 2)
            #expect(run.output.isEmpty)
            let name = words.joined(separator: " ")
            #expect(
                run.errors
                    == "pathmirror help: there is no command \"\(name)\".\(question) Try 'pathmirror help --help'.\n")
        }
    }

    @Test func aWordOfAGroupThatIsNearAnother() throws {
        let run = try pathmirror(["log", "lss"])
        #expect(run.exitCode == 2)
        #expect(
            run.errors.hasPrefix("pathmirror: there is no command \"log lss\". Did you mean \"log ls\"?\n\nusage: "))
        #expect(
            try pathmirror(["feed", "dead", "retyr"]).errors.hasPrefix(
                "pathmirror: there is no command \"feed dead retyr\". Did you mean \"feed dead retry\"?\n"))
    }

    @Test(arguments: ["log", "migrate", "replay", "rules", "token", "mirror", "feed", "feed dead"])
    func groups(_ group: String) throws {
        let members = Self.names.filter { $0.hasPrefix(group + " ") }
        #expect(!members.isEmpty)
        for (words, code) in [([], 2), (["nonsense"], 2), (["--help"], 0), (["-h"], 0)] as [([String], Int32)] {
            let run = try pathmirror(group.split(separator: " ").map(String.init) + words)
            #expect(run.exitCode == code, "\(words)")
            let (used, unused) = code == 0 ? (run.output, run.errors) : (run.errors, run.output)
            #expect(unused.isEmpty)
            #expect(used.contains("usage: pathmirror \(group) COMMAND [OPTION …]\n"))
            #expect(used.contains("there is no command \"\(group) nonsense\"") == (words == ["nonsense"]))
            #expect(used.split(separator: "\n").count { $0.hasPrefix("  ") } == members.count)
            for member in Commands.all.map({ $0.specification }) where members.contains(member.name) {
                #expect(used.contains("\n  \(member.name) ") && used.contains("  \(member.summary)\n"))
            }
        }
    }

    @Test func commitsOfBuilds() {
        #expect(VersionCommand.program(commit: nil) == "0.2.0-dev, schema \(Migrations.newest)")
        #expect(VersionCommand.program(commit: "4ba6e39d01f2") == "0.2.0-dev+4ba6e39d01f2, schema \(Migrations.newest)")
        #expect(VersionCommand.commit.map { $0.allSatisfy(\.isHexDigit) && $0.count >= 7 } ?? true)
    }

    @Test func version() throws {
        #expect(try pathmirror(["version"]).output == "\(VersionCommand.program)\n")
        #expect(try pathmirror(["--version"]).output == "\(VersionCommand.program)\n")
        let json = try pathmirror(["version", "--json"]).json()
        let commit = VersionCommand.commit.map { JSONText.text($0) } ?? .null
        #expect(
            json == [["version": "0.2.0-dev", "commit": commit, "schema": .number("\(Migrations.newest)")]])
        #expect(try pathmirror(["version", "x"]).exitCode == 2)
    }

    /// Checks that the environment also sets options of commands without a configuration file.
    @Test func environment() throws {
        #expect(try pathmirror(["version"], environment: ["PATHMIRROR_JSON": "true"]).json().count == 1)
        #expect(try pathmirror(["version"], environment: ["PATHMIRROR_JSON": "no"]).output.hasPrefix("0.2.0-dev"))
    }

    /// Runs each command without a required argument or option.
    @Test(arguments: [
        ("serve", "--database-url is missing (or --database-url-file)."), ("log show", "SEQ|TIME is missing."),
        ("log blame", "PATH is missing."), ("log undo", "SEQ is missing."),
        ("log prune", "--keep is missing."), ("replay tree", "--at is missing."),
        ("replay apply", "FILE|- is missing."),
        ("replay mirror", "NAME is missing."), ("diff", "NS[@SEQ|TIME] is missing."), ("import", "FILE|- is missing."),
        ("rules set", "FILE|- is missing."), ("rules check", "FILE|- is missing."),
        ("rules test", "FILE|- is missing."),
        ("rules explain", "--rules is missing (or --ns of a namespace that has rules)."),
        ("token mint", "one of --secret-file, --key-file and --unsigned is needed."),
        ("token inspect", "TOKEN|- is missing."), ("mirror apply", "FILE… is missing."),
        ("mirror infer", "PATH is missing."),
        ("mirror pause", "NAME is missing."), ("mirror resume", "NAME is missing."),
        ("mirror drop", "NAME is missing."),
        ("mirror errors", "NAME is missing."), ("mirror export", "NAME is missing."),
        ("completions", "bash|zsh|fish is missing."),
    ]) func whatIsMissing(_ name: String, _ message: String) throws {
        let run = try pathmirror(name.split(separator: " ").map(String.init))
        #expect(run.exitCode == 2)
        #expect(run.errors == "pathmirror \(name): \(message) Try 'pathmirror \(name) \(Self.help(name))'.\n")
    }

    /// Checks that commands without a database explain how to name one.
    @Test(arguments: [
        ["migrate", "up"], ["migrate", "status"], ["export"], ["import", "x"], ["log", "ls"], ["log", "show", "1"],
        ["log", "tail"], ["log", "verify"], ["log", "blame", "/"], ["log", "snapshot"],
        ["log", "prune", "--keep", "1 entry"],
        ["replay", "tree", "--at", "1", "--output", "-"], ["replay", "log"], ["replay", "apply", "x"],
        ["replay", "mirror", "x"],
        ["diff", "a", "b"], ["rules", "get"], ["rules", "history"], ["rules", "rollback"], ["mirror", "ls"],
        ["mirror", "status"], ["mirror", "pause", "x"], ["mirror", "resume", "x"], ["mirror", "drop", "x"],
        ["mirror", "errors", "x"], ["mirror", "export", "x"], ["mirror", "infer", "/x"],
    ]) func noDatabase(_ arguments: [String]) throws {
        let folder = try ScratchFolder()
        let run = try pathmirror(arguments + ["--data", folder.path])
        #expect(run.exitCode == (arguments[0] == "diff" ? 2 : 1))
        #expect(run.output.isEmpty)
        #expect(
            run.errors
                == "pathmirror: No database: give --database-url, or --data with the directory of a running 'pathmirror dev' (\(folder.path) has none).\n"
        )
    }

    /// Checks that errors do not contain the password.
    @Test(arguments: [["log", "ls"], ["migrate", "up"], ["mirror", "ls"], ["rules", "get"]])
    func aDatabaseThatIsNotThere(_ arguments: [String]) throws {
        let url = "postgresql://nobody:hunter2secret@127.0.0.1:1/none"
        for run in [
            try pathmirror(arguments + ["--database-url", url]),
            try pathmirror(arguments, environment: ["PATHMIRROR_DATABASE_URL": url]),
        ] {
            #expect(run.exitCode == 1)
            #expect(run.errors.hasPrefix("pathmirror: "))
            #expect(run.errors.contains("127.0.0.1"))
            #expect(!run.errors.contains("hunter2"))
        }
    }

    @Test func aDatabaseURLThatIsNone() throws {
        let run = try pathmirror(["log", "ls", "--database-url", "nonsense://hunter2secret"])
        #expect(run.exitCode == 1)
        #expect(!run.errors.contains("hunter2"))
    }
}
