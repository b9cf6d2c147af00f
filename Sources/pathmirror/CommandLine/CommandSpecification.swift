struct OptionSpecification {
    let name: String
    /// The placeholder of the value in the help; nil for a switch.
    let value: String?
    let help: String

    init(_ name: String, _ value: String? = nil, _ help: String) {
        self.name = name
        self.value = value
        self.help = help
    }

    /// Whether the option takes a list, separated by commas. Such an option may also be given several times.
    var isList: Bool { value?.hasSuffix("…]") ?? false }

    static let json = OptionSpecification("json", nil, "prints JSON, for programs")

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
    /// Names of arguments without dashes, for the help. `[X]` is optional; a last `X…` may be repeated.
    let positionals: [String]
    let options: [OptionSpecification]
    /// Options of another command that this one takes from the environment and from the file of `--config`, but not from the command line.
    let inherited: [OptionSpecification]
    /// The options that a first use needs. `--help` shows only these; empty for commands whose `--help` shows all options.
    let firstOptions: [OptionGroup]
    /// Further explanations: whole sentences, a paragraph each.
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

    /// The words of the command's name: `log`, `ls`.
    var words: [String] { CommandTree.words(name) }

    /// Whether the last argument may be repeated.
    var takesMany: Bool { positionals.last.map { $0.hasSuffix("…") || $0.hasSuffix("…]") } ?? false }

    func option(named name: String) -> OptionSpecification? { options.first { $0.name == name } }

    /// Returns the option that an environment variable sets.
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

    /// The text of `--help`.
    var help: String {
        guard !firstOptions.isEmpty else { return fullHelp }
        var text = beginning
        for group in firstOptions {
            text += "\n\(group.title):\n"
            for option in group.names.compactMap(option(named:)) { text += option.helpLine }
        }
        return text + "\n'pathmirror \(name) --help all' shows all \(options.count) options. \(environmentNote)"
    }

    /// The text of `--help all`: every option.
    var fullHelp: String {
        guard !options.isEmpty else { return beginning }
        return beginning + "\n" + options.map(\.helpLine).joined() + "\n\(environmentNote)"
    }

    private var beginning: String { "\(usageLine)\n\n\(summary)\n" + notes.map { "\n\($0)\n" }.joined() }

    /// Explains how options may be set other than on the command line. Empty for commands without options that can be.
    var environmentNote: String {
        guard let first = options.first else { return "" }
        var text = "Each option may also be set in the environment (--\(first.name): \(first.environmentName))"
        if inherited.isEmpty, options.contains(where: { $0.name == "config" }) { text += " or in the file of --config" }
        return text + "."
    }
}

/// The kind of an argument or of an option's value, for shell completion. Derived from its placeholder in the help.
enum ValueKind: Equatable {
    /// A number, a name or a text: shells have nothing to offer.
    case free
    case file
    case folder
    /// One of these words.
    case words([String])
    /// The name of a command, which may have several words.
    case command

    /// - Parameter placeholder: such as `FILE`, `[DIR]`, `FILE|-`, `COMMAND…` or `text|json`.
    init(_ placeholder: String) {
        let bare = placeholder.filter { $0 != "[" && $0 != "]" && $0 != "…" }
        let choices = bare.split(separator: "|").map(String.init)
        if choices.count > 1, choices.allSatisfy({ $0.allSatisfy { $0.isLowercase && $0.isASCII } }) {
            self = .words(choices)
        } else {
            switch choices.first {
            case "FILE": self = .file
            case "DIR": self = .folder
            case "COMMAND": self = .command
            default: self = .free
            }
        }
    }
}

/// The words that name commands: `log` is followed by `ls`, `show`, …
struct CommandTree {
    let specifications: [CommandSpecification]

    /// The command whose name these words begin with.
    func command(_ words: [String]) -> CommandSpecification? {
        specifications.first { words.starts(with: $0.words) }
    }

    /// The words that can follow the beginning of a name (`""` for the first word), each word once, in the order of the help.
    func words(after beginning: String) -> [String] {
        let prefix = Self.words(beginning)
        var found: [String] = []
        for specification in specifications where specification.words.starts(with: prefix) {
            guard specification.words.count > prefix.count else { continue }
            let word = specification.words[prefix.count]
            if !found.contains(word) { found.append(word) }
        }
        return found
    }

    /// Beginnings of names that need more words, such as `log` and `feed dead`.
    var groups: [String] {
        var found: [String] = []
        for words in specifications.map(\.words) {
            for count in words.indices.dropFirst() {
                let group = words.prefix(count).joined(separator: " ")
                if !found.contains(group) { found.append(group) }
            }
        }
        return found
    }

    /// Describes a word after a beginning: a command's summary, or the words of a group's commands.
    func summary(of name: String) -> String {
        if let command = specifications.first(where: { $0.name == name }) { return command.summary }
        return words(after: name).joined(separator: ", ")
    }

    /// Names of commands that the user may have meant.
    ///
    /// - Parameter words: begin with no command's name.
    func nearest(_ words: [String]) -> [String] {
        var beginning: [String] = []
        for word in words {
            let following = self.words(after: beginning.joined(separator: " "))
            guard !following.contains(word) else {
                beginning.append(word)
                continue
            }
            let name = { (next: String) in (beginning + [next]).joined(separator: " ") }
            let near = NearestWord.all(word, among: following)
            if !near.isEmpty { return near.map(name) }
            // The group was left out: `tail` for `log tail`.
            return specifications.filter { $0.words.starts(with: beginning) && $0.words.last == word }.map(\.name)
        }
        return []
    }

    static func words(_ name: String) -> [String] { name.split(separator: " ").map(String.init) }
}
