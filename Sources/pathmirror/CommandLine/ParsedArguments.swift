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
