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

    /// `PATHMIRROR_MAX_BODY_BYTES` for `max-body-bytes`.
    var environmentName: String {
        "PATHMIRROR_" + name.uppercased().map { $0 == "-" ? "_" : String($0) }.joined()
    }
}

struct CommandSpecification {
    let name: String
    let summary: String
    /// Names of arguments without dashes, for the help; `[X]` may be left out, and a last one of `X…` stands for many.
    let positionals: [String]
    let options: [OptionSpecification]

    init(_ name: String, _ summary: String, positionals: [String] = [], options: [OptionSpecification]) {
        self.name = name
        self.summary = summary
        self.positionals = positionals
        self.options = options
    }

    var usageLine: String {
        "usage: pathmirror " + ([name] + positionals + (options.isEmpty ? [] : ["[OPTION …]"])).joined(separator: " ")
    }

    var help: String {
        var text = "\(usageLine)\n\n\(summary)\n"
        guard !options.isEmpty else { return text }
        text += "\n"
        for option in options {
            let left = "  --\(option.name)" + (option.value.map { " \($0)" } ?? "")
            text += left + String(repeating: " ", count: max(2, 34 - left.count)) + option.help + "\n"
        }
        text += "\nEach option may also be set in the environment (--\(options[0].name): \(options[0].environmentName))"
        if options.contains(where: { $0.name == "config" }) { text += " or in the file of --config" }
        return text + "."
    }
}
