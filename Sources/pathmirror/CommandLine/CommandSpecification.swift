struct OptionSpecification {
    let name: String
    /// What stands for the value in the help; nil for a switch.
    let value: String?
    let help: String

    init(_ name: String, _ value: String? = nil, _ help: String) {
        self.name = name
        self.value = value
        self.help = help
    }

    /// Whether it takes a list, with commas. Then it may also be given several times.
    var isList: Bool { value?.hasSuffix("…]") ?? false }

    static let json = OptionSpecification("json", nil, "writes JSON, for programs")

    /// `PATHMIRROR_MAX_BODY` for `max-body`.
    var environmentName: String {
        "PATHMIRROR_" + name.uppercased().map { $0 == "-" ? "_" : String($0) }.joined()
    }

    /// The option's line in the help.
    fileprivate var helpLine: String {
        let left = "  --\(name)" + (value.map { " \($0)" } ?? "")
        return left + String(repeating: " ", count: max(2, 34 - left.count)) + help + "\n"
    }
}

/// Options that the help of a command with many options shows under a heading.
struct OptionGroup {
    let title: String
    let names: [String]
}

struct CommandSpecification {
    let name: String
    let summary: String
    /// Names of arguments without dashes, for the help; `[X]` may be left out, and a last one of `X…` stands for many.
    let positionals: [String]
    let options: [OptionSpecification]
    /// Options of another command, which this one takes from the environment and from the file of `--config`, and not from the
    /// command line.
    let inherited: [OptionSpecification]
    /// The options that a first use needs, which `--help` shows alone; empty for commands whose `--help` shows all options.
    let firstOptions: [OptionGroup]
    /// What more there is to know: whole sentences, a paragraph each.
    let notes: [String]

    init(
        _ name: String, _ summary: String, positionals: [String] = [], options: [OptionSpecification],
        inherited: [OptionSpecification] = [], firstOptions: [OptionGroup] = [], notes: [String] = []
    ) {
        self.name = name
        self.summary = summary
        self.positionals = positionals
        self.options = options
        self.inherited = inherited
        self.firstOptions = firstOptions
        self.notes = notes
    }

    /// The words of its name: `log`, `ls`.
    var words: [String] { CommandTree.words(name) }

    /// Whether the last argument may be given many times.
    var takesMany: Bool { positionals.last.map { $0.hasSuffix("…") || $0.hasSuffix("…]") } ?? false }

    func option(named name: String) -> OptionSpecification? { options.first { $0.name == name } }

    /// An option that may be set in the environment.
    func variable(named name: String) -> OptionSpecification? {
        option(named: name) ?? inherited.first { $0.name == name }
    }

    /// The options that the file of `--config` may set.
    var configurable: [OptionSpecification] {
        (inherited.isEmpty ? options : inherited).filter { $0.name != "config" }
    }

    var usageLine: String {
        "usage: pathmirror " + ([name] + positionals + (options.isEmpty ? [] : ["[OPTION …]"])).joined(separator: " ")
    }

    /// What `--help` shows.
    var help: String {
        guard !firstOptions.isEmpty else { return fullHelp }
        var text = beginning
        for group in firstOptions {
            text += "\n\(group.title):\n"
            for option in group.names.compactMap(option(named:)) { text += option.helpLine }
        }
        return text + "\n'pathmirror \(name) --help all' shows all \(options.count) options. \(environmentNote)"
    }

    /// What `--help all` shows: every option.
    var fullHelp: String {
        guard !options.isEmpty else { return beginning }
        return beginning + "\n" + options.map(\.helpLine).joined() + "\n\(environmentNote)"
    }

    private var beginning: String { "\(usageLine)\n\n\(summary)\n" + notes.map { "\n\($0)\n" }.joined() }

    /// How else than on the command line options may be set. Only for commands that have some.
    var environmentNote: String {
        guard let first = options.first else { return "" }
        var text = "Each option may also be set in the environment (--\(first.name): \(first.environmentName))"
        if inherited.isEmpty, options.contains(where: { $0.name == "config" }) { text += " or in the file of --config" }
        return text + "."
    }
}
