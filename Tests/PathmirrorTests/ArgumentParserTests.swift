import Testing

@testable import pathmirror

/// Checks that the parser accepts every form of a command line, and rejects invalid ones with one sentence.
@Suite struct ArgumentParserTests {
    static let specification = CommandSpecification(
        "try", "tries things",
        positionals: ["FILE", "[OTHER]"],
        options: [
            .init("name", "NAME", "a name"), .init("count", "N", "a number"), .init("list", "A[,…]", "a list"),
            .init("output", "FILE", "a file"), .init("force", nil, "a switch"),
        ])

    static func parse(
        _ arguments: [String], _ environment: [String: String] = [:],
        _ specification: CommandSpecification = specification
    ) throws -> ParsedArguments {
        try ParsedArguments(arguments, specification, Environment(values: environment))
    }

    private static func message(_ arguments: [String], _ specification: CommandSpecification = specification) -> String?
    {
        do {
            _ = try parse(arguments, [:], specification)
            return nil
        } catch {
            return (error as? UsageError)?.message
        }
    }

    struct Form: CustomTestStringConvertible {
        let arguments: [String]
        var positionals = ["f"]
        var values: [String: String] = [:]
        var testDescription: String { arguments.joined(separator: " ") }
    }

    /// A misspelled value of a switch is an error: otherwise the switch would stay off silently.
    @Test(
        arguments: [
            ("enabled", nil), ("y", nil), ("2", nil), (" true", nil), ("Yes", true), ("off", false), ("0", false),
            ("", false),
        ]
            as [(String, Bool?)])
    func switches(_ text: String, _ isOn: Bool?) throws {
        let environment = Environment(values: ["PATHMIRROR_STRICT_SECRETS": text])
        guard let isOn else {
            let error = #expect(throws: UsageError.self) {
                try ParsedArguments([], ServeCommand.specification, environment)
            }
            #expect(error?.message.contains("--strict-secrets must be on or off") == true)
            #expect(error?.message.contains("PATHMIRROR_STRICT_SECRETS") == true)
            return
        }
        #expect(try ParsedArguments([], ServeCommand.specification, environment).has("strict-secrets") == isOn)
    }

    @Test(arguments: [
        Form(arguments: ["f"]),
        Form(arguments: ["f", "g"], positionals: ["f", "g"]),
        Form(arguments: ["f", "--name", "x"], values: ["name": "x"]),
        Form(arguments: ["--name", "x", "f"], values: ["name": "x"]),
        Form(arguments: ["--name=x", "f"], values: ["name": "x"]),
        Form(arguments: ["-name", "x", "f"], values: ["name": "x"]),
        Form(arguments: ["f", "--name="], values: ["name": ""]),
        Form(arguments: ["f", "--name", ""], values: ["name": ""]),
        Form(arguments: ["f", "--name=a=b"], values: ["name": "a=b"]),
        Form(arguments: ["f", "--name", "a=b"], values: ["name": "a=b"]),
        // A value may look like an option.
        Form(arguments: ["f", "--name", "--force"], values: ["name": "--force"]),
        Form(arguments: ["f", "--count", "-1"], values: ["count": "-1"]),
        Form(arguments: ["f", "--name", "a", "--name", "b"], values: ["name": "b"]),
        Form(arguments: ["f", "--list", "a", "--list", "b,c"], values: ["list": "a,b,c"]),
        Form(arguments: ["f", "--list=a", "--list="], values: ["list": "a,"]),
        Form(arguments: ["f", "-o", "out"], values: ["output": "out"]),
        Form(arguments: ["f", "--output", "out"], values: ["output": "out"]),
        Form(arguments: ["f", "--force"], values: ["force": "true"]),
        Form(arguments: ["f", "--force", "--force"], values: ["force": "true"]),
        Form(arguments: ["--force", "f"], values: ["force": "true"]),
        // A single dash is a name for standard input.
        Form(arguments: ["-"], positionals: ["-"]),
        Form(arguments: ["f", "-"], positionals: ["f", "-"]),
        Form(arguments: ["--", "--name"], positionals: ["--name"]),
        Form(arguments: ["--", "-x", "--"], positionals: ["-x", "--"]),
        Form(arguments: ["--name", "--", "f"], values: ["name": "--"]),
        Form(arguments: [""], positionals: [""]),
    ]) func forms(_ form: Form) throws {
        let parsed = try Self.parse(form.arguments)
        #expect(parsed.positionals == form.positionals)
        for option in Self.specification.options {
            #expect(parsed[option.name] == form.values[option.name], "--\(option.name)")
        }
        #expect(parsed.has("force") == (form.values["force"] != nil))
    }

    @Test(arguments: [
        (["f", "--nonsense"], "there is no option --nonsense."),
        (["f", "--nonsense=1"], "there is no option --nonsense=1."),
        (["f", "-x"], "there is no option -x."),
        (["f", "--"], nil),
        (["f", "---"], "there is no option ---."),
        (["f", "--="], "there is no option --=."),
        (["f", "--Name", "x"], "there is no option --Name. Did you mean --name?"),
        (["f", "--naem", "x"], "there is no option --naem. Did you mean --name?"),
        (["f", "--cuont=1"], "there is no option --cuont=1. Did you mean --count?"),
        (["f", "--force=1"], "--force takes no value."),
        (["f", "--force="], "--force takes no value."),
        (["f", "--name"], "--name needs a value (NAME)."),
        (["f", "--list"], "--list needs a value (A[,…])."),
        (["f", "-o"], "--output needs a value (FILE)."),
        ([], "FILE is missing."),
        (["--force"], "FILE is missing."),
        (["--"], "FILE is missing."),
        (["f", "g", "h"], "too many arguments: \"h\"."),
        (["f", "--", "g", "--force"], "too many arguments: \"--force\"."),
        // The first mistake is reported.
        (["--nonsense", "--more"], "there is no option --nonsense."),
    ]) func mistakes(_ arguments: [String], _ expected: String?) {
        #expect(Self.message(arguments) == expected)
    }

    @Test func manyPositionals() throws {
        let many = CommandSpecification("many", "takes many", positionals: ["FIRST", "FILE…"], options: [])
        #expect(try Self.parse(["a", "b", "c", "d"], [:], many).positionals == ["a", "b", "c", "d"])
        #expect(Self.message(["a"], many) == "FILE… is missing.")
        #expect(Self.message([], many) == "FIRST is missing.")
        let any = CommandSpecification("any", "takes any number", positionals: ["[WORD…]"], options: [])
        #expect(try Self.parse([], [:], any).positionals.isEmpty)
        #expect(try Self.parse(["a", "b"], [:], any).positionals == ["a", "b"])
        let none = CommandSpecification("none", "takes none", options: [])
        #expect(try Self.parse([], [:], none).positionals.isEmpty)
        #expect(Self.message(["a"], none) == "too many arguments: \"a\".")
    }

    @Test func whatIsNotInTheSpecificationHasNoValue() throws {
        let parsed = try Self.parse(["f"], ["PATHMIRROR_NONSENSE": "x"])
        #expect(parsed["nonsense"] == nil)
        #expect(!parsed.has("nonsense"))
        #expect(try parsed.integer("nonsense", in: 0...1) == nil)
    }

    @Test(arguments: [
        ("true", true), ("TRUE", true), ("True", true), ("yes", true), ("YES", true), ("on", true), ("1", true),
        ("false", false), ("no", false), ("off", false), ("0", false), ("", false),
    ]) func switchesInTheEnvironment(_ text: String, _ isOn: Bool) throws {
        #expect(try Self.parse(["f"], ["PATHMIRROR_FORCE": text]).has("force") == isOn)
    }

    @Test(arguments: [
        ("5", 5), ("-3", -3), ("10", 10), ("+7", 7), ("007", 7), ("-4", nil), ("11", nil), ("", nil), ("x", nil),
        ("5 ", nil),
        (" 5", nil), ("5.0", nil), ("0x5", nil), ("5,0", nil), ("99999999999999999999", nil), ("٣", nil),
    ]) func integers(_ text: String, _ expected: Int?) throws {
        let parsed = try Self.parse(["f", "--count", text])
        guard let expected else {
            let error = #expect(throws: UsageError.self) { try parsed.integer("count", in: -3...10) }
            #expect(error?.message == "--count must be a whole number from -3 to 10.")
            return
        }
        #expect(try parsed.integer("count", in: -3...10) == expected)
    }

    @Test(arguments: [
        ("15s", 15_000), ("1ms", 1), ("2m", 120_000), ("1000", nil), ("0", nil), ("0s", nil), ("3m", nil), ("", nil),
        ("15 s", nil), ("1.5s", nil), ("-1s", nil), ("15S", nil), ("15sec", nil), ("soon", nil),
    ]) func durations(_ text: String, _ expected: Int64?) throws {
        let parsed = try Self.parse(["f", "--count", text])
        guard let expected else {
            let error = #expect(throws: UsageError.self) { try parsed.duration("count", in: 1...120_000) }
            #expect(error?.message == "--count must be a duration such as 15s or 10m, from 1ms to 2m.")
            return
        }
        #expect(try parsed.duration("count", in: 1...120_000) == expected)
    }

    @Test(arguments: [
        ("64MiB", 64 << 20), ("1KiB", 1_024), ("1024B", 1_024), ("1GiB", 1 << 30), ("1048576", nil), ("0", nil),
        ("1023B", nil), ("2GiB", nil), ("64M", nil), ("64m", nil), ("", nil), ("-1KiB", nil), ("1.5MiB", nil),
    ]) func sizes(_ text: String, _ expected: Int?) throws {
        let parsed = try Self.parse(["f", "--count", text])
        guard let expected else {
            let error = #expect(throws: UsageError.self) { try parsed.size("count", in: 1_024...(1 << 30)) }
            #expect(error?.message == "--count must be a size such as 64MiB or 4GiB, from 1KiB to 1GiB.")
            return
        }
        #expect(try parsed.size("count", in: 1_024...(1 << 30)) == expected)
    }

    /// Options of another command are read from the environment and the file only.
    @Test func inheritedOptions() throws {
        let folder = try ScratchFolder()
        let file = try folder.file("c", "there = file\n")
        let heir = CommandSpecification(
            "heir", "inherits", options: [.init("config", "FILE", "a file"), .init("own", "X", "its own")],
            inherited: [.init("there", "X", "another's"), .init("own", "X", "the same")])
        #expect(try Self.parse(["--config", file], [:], heir)["there"] == "file")
        #expect(try Self.parse(["--config", file], ["PATHMIRROR_THERE": "variable"], heir)["there"] == "variable")
        #expect(try Self.parse(["--own", "x"], ["PATHMIRROR_OWN": "y"], heir)["own"] == "x")
        #expect(Self.message(["--there", "x"], heir) == "there is no option --there.")
        #expect(!heir.help.contains("--there"))
    }

    @Test func theFirstOptionsAreShownInGroups() {
        let command = CommandSpecification(
            "many", "has many",
            options: [.init("a", "X", "first"), .init("b", nil, "second"), .init("c", "X", "third")],
            firstOptions: [.init(title: "Above", names: ["b"]), .init(title: "Below", names: ["a"])])
        let lines = command.help.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        #expect(
            lines.filter { $0.hasPrefix("  --") || $0.hasSuffix(":") }.map { $0.prefix(6) } == [
                "Above:", "  --b ", "Below:", "  --a ",
            ])
        #expect(command.help.contains("'pathmirror many --help all' shows all 3 options."))
        #expect(command.fullHelp.contains("  --c X ") && !command.fullHelp.contains("Above"))
    }

    @Test(arguments: [
        ("name", "PATHMIRROR_NAME"), ("max-body", "PATHMIRROR_MAX_BODY"), ("ns", "PATHMIRROR_NS"),
        ("hsts-max-age", "PATHMIRROR_HSTS_MAX_AGE"),
    ]) func environmentNames(_ option: String, _ name: String) {
        #expect(OptionSpecification(option, "X", "").environmentName == name)
    }

    @Test func helpListsEverything() {
        let help = Self.specification.help
        #expect(help.hasPrefix("usage: pathmirror try FILE [OTHER] [OPTION …]\n\ntries things\n\n"))
        #expect(help.contains("\n  --name NAME                     a name\n"))
        #expect(help.contains("\n  --force                         a switch\n"))
        #expect(help.hasSuffix("\nEach option may also be set in the environment (--name: PATHMIRROR_NAME)."))
        let bare = CommandSpecification("bare", "is bare", options: [])
        #expect(bare.help == "usage: pathmirror bare\n\nis bare\n")
        let long = CommandSpecification(
            "long", "is long",
            options: [
                .init("a-name-that-is-longer-than-its-column", "VALUE", "its help"), .init("config", "FILE", "c"),
            ])
        #expect(long.help.contains("\n  --a-name-that-is-longer-than-its-column VALUE  its help\n"))
        #expect(long.help.hasSuffix(" or in the file of --config."))
    }
}

/// Checks that a configuration file may set every option of the command line, and that errors name the line.
@Suite struct ConfigurationFileTests {
    private let specification = CommandSpecification(
        "try", "tries",
        options: [
            .init("name", "NAME", ""), .init("list", "A[,…]", ""), .init("force", nil, ""), .init("config", "FILE", ""),
        ])

    private func read(_ text: String) throws -> [String: String] {
        let folder = try ScratchFolder()
        return try ConfigurationFile.read(try folder.file("c", text), specification)
    }

    @Test(arguments: [
        ("", [:]), ("\n\n", [:]), ("# comment\n", [:]), ("   # comment", [:]), ("\r\n", [:]),
        ("name = x", ["name": "x"]), ("name=x\n", ["name": "x"]), ("  name\t=\t x \r\n", ["name": "x"]),
        ("name = a b", ["name": "a b"]), ("name = a = b", ["name": "a = b"]),
        ("name = # no comment", ["name": "# no comment"]),
        ("name =", ["name": ""]), ("name = \"x\"", ["name": "\"x\""]), ("name = ü", ["name": "ü"]),
        ("name = a\nname = b", ["name": "b"]), ("list = a\nlist = b,c", ["list": "a,b,c"]),
        ("force = yes\nname = x", ["force": "yes", "name": "x"]),
        ("# x\r\nforce = yes\r\n\r\nname = x\r\n", ["force": "yes", "name": "x"]),
    ]) func understood(_ text: String, _ expected: [String: String]) throws {
        #expect(try read(text) == expected)
    }

    @Test(arguments: [
        ("name", ", line 1: expected 'name = value'."), ("# x\n\nname x\n", ", line 3: expected 'name = value'."),
        ("nonsense = 1", ", line 1: there is no option \"nonsense\"."),
        ("name = x\n--name = x", ", line 2: there is no option \"--name\". Did you mean \"name\"?"),
        ("= x", ", line 1: there is no option \"\"."),
        ("NAME = x", ", line 1: there is no option \"NAME\". Did you mean \"name\"?"),
        // A file that names another one could recurse endlessly.
        ("config = other", ", line 1: there is no option \"config\"."),
    ]) func refused(_ text: String, _ expected: String) throws {
        let folder = try ScratchFolder()
        let file = try folder.file("c", text)
        let error = #expect(throws: UsageError.self) { try ConfigurationFile.read(file, specification) }
        #expect(error?.message == file + expected)
    }

    @Test func aFileThatIsNotThere() throws {
        let folder = try ScratchFolder()
        let error = #expect(throws: CommandFailure.self) {
            try ArgumentParserTests.parse(["--config", folder.path + "/none"], [:], specification)
        }
        #expect(error?.description == "\(folder.path)/none can't be read: No such file or directory.")
    }

    /// Checks the precedence: the command line, then the environment, then the file, with each subset of them.
    @Test(arguments: 0..<8) func precedence(_ sources: Int) throws {
        let (inFile, inEnvironment, onLine) = (sources & 1 != 0, sources & 2 != 0, sources & 4 != 0)
        let folder = try ScratchFolder()
        let file = try folder.file("c", inFile ? "name = file" : "")
        let parsed = try ArgumentParserTests.parse(
            ["--config", file] + (onLine ? ["--name", "line"] : []),
            inEnvironment ? ["PATHMIRROR_NAME": "environment"] : [:],
            specification)
        #expect(parsed["name"] == (onLine ? "line" : inEnvironment ? "environment" : inFile ? "file" : nil))
    }

    @Test func listsOfTwoSourcesAreNotMixed() throws {
        let folder = try ScratchFolder()
        let file = try folder.file("c", "list = a\nlist = b")
        let parsed = try ArgumentParserTests.parse(["--config", file, "--list", "c"], [:], specification)
        #expect(parsed["list"] == "c")
    }

    @Test func theEnvironmentMayNameTheFile() throws {
        let folder = try ScratchFolder()
        let file = try folder.file("c", "name = file\nforce = on")
        let parsed = try ArgumentParserTests.parse([], ["PATHMIRROR_CONFIG": file], specification)
        #expect(parsed["name"] == "file")
        #expect(parsed.has("force"))
    }

    /// The environment can turn off a switch that the file turns on.
    @Test func theEnvironmentTakesASwitchBack() throws {
        let folder = try ScratchFolder()
        let file = try folder.file("c", "force = true")
        let parsed = try ArgumentParserTests.parse(["--config", file], ["PATHMIRROR_FORCE": "false"], specification)
        #expect(!parsed.has("force"))
    }

    @Test func commandsWithoutTheOptionReadNoFile() throws {
        let plain = CommandSpecification("try", "tries", options: [.init("name", "NAME", "")])
        let parsed = try ArgumentParserTests.parse([], ["PATHMIRROR_CONFIG": "/nowhere"], plain)
        #expect(parsed["name"] == nil)
    }
}
