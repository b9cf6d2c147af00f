/// A mistake in how the program was called.
struct UsageError: Error {
    let message: String
    init(_ message: String) { self.message = message }
}

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

/// A command's arguments, with what the environment and the configuration file say where the command line says nothing.
struct ParsedArguments {
    let positionals: [String]
    private var given: [String: String] = [:]
    private let environment: Environment
    private var configuration: [String: String] = [:]
    private let specification: CommandSpecification

    init(_ arguments: [String], _ specification: CommandSpecification, _ environment: Environment) throws {
        self.specification = specification
        self.environment = environment
        var positionals: [String] = []
        var index = 0
        var onlyPositionals = false
        while index < arguments.count {
            let argument = arguments[index]
            index += 1
            if onlyPositionals || !argument.hasPrefix("-") || argument == "-" {
                positionals.append(argument)
                continue
            }
            if argument == "--" {
                onlyPositionals = true
                continue
            }
            var name = argument == "-o" ? "output" : String(argument.drop { $0 == "-" })
            var value: String?
            if let equals = name.firstIndex(of: "=") {
                value = String(name[name.index(after: equals)...])
                name = String(name[..<equals])
            }
            guard let option = specification.options.first(where: { $0.name == name }) else {
                throw UsageError("there is no option \(argument).")
            }
            if option.value == nil {
                guard value == nil else { throw UsageError("--\(name) takes no value.") }
                given[name] = "true"
            } else if let value {
                Self.give(value, to: option, in: &given)
            } else {
                guard index < arguments.count else {
                    throw UsageError("--\(name) needs a value (\(option.value ?? "")).")
                }
                Self.give(arguments[index], to: option, in: &given)
                index += 1
            }
        }
        let least = specification.positionals.filter { !$0.hasPrefix("[") }.count
        let takesMany = specification.positionals.last?.hasSuffix("…") ?? false
        let most = takesMany ? Int.max : max(least, specification.positionals.count)
        guard (least...most).contains(positionals.count) else {
            throw UsageError(
                positionals.count < least
                    ? "\(specification.positionals[positionals.count]) is missing."
                    : "\"\(positionals[specification.positionals.count])\" is one argument too many.")
        }
        self.positionals = positionals
        if specification.options.contains(where: { $0.name == "config" }), let file = self["config"] {
            configuration = try ConfigurationFile.read(file, specification)
        }
    }

    /// The last value counts; those of a list are all meant.
    static func give(_ value: String, to option: OptionSpecification, in values: inout [String: String]) {
        guard option.isList, let before = values[option.name] else {
            values[option.name] = value
            return
        }
        values[option.name] = "\(before),\(value)"
    }

    /// The option's value: of the command line, else of the environment, else of the configuration file.
    subscript(_ name: String) -> String? {
        if let value = given[name] { return value }
        guard let option = specification.options.first(where: { $0.name == name }) else { return nil }
        return environment[option.environmentName] ?? configuration[name]
    }

    /// A switch; in the environment and in files `true`, `yes`, `on` or `1`.
    func has(_ name: String) -> Bool {
        guard let value = self[name] else { return false }
        return ["true", "yes", "on", "1"].contains(value.lowercased())
    }

    func integer(_ name: String, in range: ClosedRange<Int>) throws -> Int? {
        guard let text = self[name] else { return nil }
        guard let value = Int(text), range.contains(value) else {
            throw UsageError("--\(name) must be a whole number from \(range.lowerBound) to \(range.upperBound).")
        }
        return value
    }
}

/// Files of `name = value` lines; `#` begins a comment line.
enum ConfigurationFile {
    static func read(_ path: String, _ specification: CommandSpecification) throws -> [String: String] {
        let text = String(decoding: try Files.read(path), as: UTF8.self)
        var values: [String: String] = [:]
        for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
            let line = line.drop { $0 == " " || $0 == "\t" }
            if line.isEmpty || line.hasPrefix("#") || line.hasPrefix("\r") { continue }
            guard let equals = line.firstIndex(of: "=") else {
                throw UsageError("\(path), line \(number + 1): expected 'name = value'.")
            }
            let name = Self.trimmed(line[..<equals])
            guard let option = specification.options.first(where: { $0.name == name && name != "config" }) else {
                throw UsageError("\(path), line \(number + 1): there is no option \"\(name)\".")
            }
            ParsedArguments.give(Self.trimmed(line[line.index(after: equals)...]), to: option, in: &values)
        }
        return values
    }

    private static func trimmed(_ text: Substring) -> String {
        let isBlank = { (character: Character) in character == " " || character == "\t" || character == "\r" }
        var text = text.drop(while: isBlank)
        while let last = text.last, isBlank(last) { text = text.dropLast() }
        return String(text)
    }
}
