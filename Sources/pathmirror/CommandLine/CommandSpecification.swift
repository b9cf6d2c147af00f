struct OptionSpecification {
    let name: String
    /// What stands for the value in the help; nil for a switch.
    let value: String?
    let help: String
    /// Names that older versions had. They are taken, and not shown.
    let oldNames: [String]

    init(_ name: String, _ value: String? = nil, _ help: String, oldNames: [String] = []) {
        self.name = name
        self.value = value
        self.help = help
        self.oldNames = oldNames
    }

    /// Whether it takes a list, with commas. Then it may also be given several times.
    var isList: Bool { value?.hasSuffix("…]") ?? false }

    static let json = OptionSpecification("json", nil, "writes JSON, for programs")

    func isNamed(_ name: String) -> Bool { self.name == name || oldNames.contains(name) }

    /// `PATHMIRROR_MAX_BODY_BYTES` for `max-body-bytes`.
    var environmentName: String { Self.environmentName(name) }

    /// The variables that set it, those of older versions last.
    var environmentNames: [String] { ([name] + oldNames).map(Self.environmentName) }

    private static func environmentName(_ name: String) -> String {
        "PATHMIRROR_" + name.uppercased().map { $0 == "-" ? "_" : String($0) }.joined()
    }
}

struct CommandSpecification {
    let name: String
    let summary: String
    /// Names of arguments without dashes, for the help; `[X]` may be left out, and a last one of `X…` stands for many.
    let positionals: [String]
    let options: [OptionSpecification]
    /// What more there is to know: whole sentences, a paragraph each.
    let notes: [String]

    init(
        _ name: String, _ summary: String, positionals: [String] = [], options: [OptionSpecification],
        notes: [String] = []
    ) {
        self.name = name
        self.summary = summary
        self.positionals = positionals
        self.options = options
        self.notes = notes
    }

    /// The words of its name: `log`, `ls`.
    var words: [String] { CommandTree.words(name) }

    /// Whether the last argument may be given many times.
    var takesMany: Bool { positionals.last.map { $0.hasSuffix("…") || $0.hasSuffix("…]") } ?? false }

    func option(named name: String) -> OptionSpecification? { options.first { $0.isNamed(name) } }

    var usageLine: String {
        "usage: pathmirror " + ([name] + positionals + (options.isEmpty ? [] : ["[OPTION …]"])).joined(separator: " ")
    }

    var help: String {
        var text = "\(usageLine)\n\n\(summary)\n"
        for note in notes { text += "\n\(note)\n" }
        guard !options.isEmpty else { return text }
        text += "\n"
        for option in options {
            let left = "  --\(option.name)" + (option.value.map { " \($0)" } ?? "")
            text += left + String(repeating: " ", count: max(2, 34 - left.count)) + option.help + "\n"
        }
        return text + "\n\(environmentNote)"
    }

    /// How else than on the command line options may be set. Only for commands that have some.
    var environmentNote: String {
        guard let first = options.first else { return "" }
        var text = "Each option may also be set in the environment (--\(first.name): \(first.environmentName))"
        if options.contains(where: { $0.name == "config" }) { text += " or in the file of --config" }
        return text + "."
    }
}
