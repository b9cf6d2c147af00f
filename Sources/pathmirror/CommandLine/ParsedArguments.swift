import Glibc
import Runtime
import Tree

/// A command's arguments, completed from the environment and the configuration file.
struct ParsedArguments {
    private(set) var positionals: [String] = []
    private var given: [String: String] = [:]
    /// The environment that the program was started with.
    let environment: Environment
    private var configuration: [String: String] = [:]
    private let specification: CommandSpecification

    init(_ arguments: [String], _ specification: CommandSpecification, _ environment: Environment) throws {
        self.specification = specification
        self.environment = environment
        try read(arguments)
        try checkPositionals()
        if specification.options.contains(where: { $0.name == "config" }), let file = self["config"] {
            configuration = try ConfigurationFile.read(file, specification)
        }
        try checkSwitches()
    }

    /// Rejects misspelled values of switches, which would otherwise leave the switch off silently.
    private func checkSwitches() throws {
        for option in specification.options where option.value == nil {
            guard let value = self[option.name]?.lowercased(), !Self.on.contains(value), !Self.off.contains(value)
            else {
                continue
            }
            let source = environment[option.environmentName] == nil ? "the configuration file" : option.environmentName
            throw UsageError("--\(option.name) must be on or off, but is set to another value in \(source).")
        }
    }

    private static let on = ["true", "yes", "on", "1"]
    private static let off = ["false", "no", "off", "0", ""]

    private mutating func read(_ arguments: [String]) throws {
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            if argument == "--" {
                positionals += rest
                return
            }
            if argument.hasPrefix("-"), argument != "-" {
                try takeOption(argument, valueFrom: &rest)
            } else {
                positionals.append(argument)
            }
        }
    }

    /// - Parameter rest: the following arguments; an option's value is taken from there.
    private mutating func takeOption(_ argument: String, valueFrom rest: inout ArraySlice<String>) throws {
        var name = argument == "-o" ? "output" : String(argument.drop { $0 == "-" })
        var value: String?
        if let equals = name.firstIndex(of: "=") {
            value = String(name[name.index(after: equals)...])
            name = String(name[..<equals])
        }
        guard let option = specification.option(named: name) else {
            throw UsageError("there is no option \(argument).\(Self.nearestOptions(name, specification))")
        }
        name = option.name
        guard let placeholder = option.value else {
            guard value == nil else { throw UsageError("--\(name) takes no value.") }
            given[name] = "true"
            return
        }
        guard let value = value ?? rest.popFirst() else {
            throw UsageError("--\(name) needs a value (\(placeholder)).")
        }
        Self.give(value, to: option, in: &given)
    }

    private func checkPositionals() throws {
        let names = specification.positionals
        let least = names.filter { !$0.hasPrefix("[") }.count
        guard positionals.count >= least else { throw UsageError("\(names[positionals.count]) is missing.") }
        guard specification.takesMany || positionals.count <= names.count else {
            throw UsageError("too many arguments: \"\(positionals[names.count])\".")
        }
    }

    /// ` Did you mean --output?`; empty if no option's name is near.
    static func nearestOptions(_ name: String, _ specification: CommandSpecification) -> String {
        let names = specification.options.map(\.name)
        return NearestWord.question(NearestWord.all(name, among: names).map { "--\($0)" }, quoted: false)
    }

    /// Stores a value. For an option given several times the last value counts, but list options keep all values.
    static func give(_ value: String, to option: OptionSpecification, in values: inout [String: String]) {
        guard option.isList, let before = values[option.name] else {
            values[option.name] = value
            return
        }
        values[option.name] = "\(before),\(value)"
    }

    /// The option's value: from the command line, else the environment, else the configuration file.
    subscript(_ name: String) -> String? {
        if let value = given[name] { return value }
        guard let option = specification.variable(named: name) else { return nil }
        return environment[option.environmentName] ?? configuration[name]
    }

    /// The argument that the help calls `name`; nil if it was not given, or the command has no such argument.
    func positional(_ name: String) -> String? {
        guard let index = specification.positionals.firstIndex(of: name), index < positionals.count else { return nil }
        return positionals[index]
    }

    /// The sources of options, by precedence.
    enum Source: Int, Comparable {
        case commandLine, environment, configuration

        static func < (left: Source, right: Source) -> Bool { left.rawValue < right.rawValue }
    }

    /// Returns nil for an option that was not given.
    func source(_ name: String) -> Source? {
        if given[name] != nil { return .commandLine }
        guard let option = specification.variable(named: name) else { return nil }
        if environment[option.environmentName] != nil { return .environment }
        return configuration[name] == nil ? nil : .configuration
    }

    /// Whether a switch is on; in the environment and in files by `true`, `yes`, `on` or `1`.
    func has(_ name: String) -> Bool {
        guard let value = self[name] else { return false }
        return Self.on.contains(value.lowercased())
    }

    func integer(_ name: String, in range: ClosedRange<Int>) throws -> Int? {
        guard let text = self[name] else { return nil }
        guard let value = Int(text), range.contains(value) else {
            throw UsageError("--\(name) must be a whole number from \(range.lowerBound) to \(range.upperBound).")
        }
        return value
    }

    /// Returns a duration such as `15s`; nil if the option is not given.
    func duration(_ name: String, in range: ClosedRange<Milliseconds>) throws -> Milliseconds? {
        guard let text = self[name] else { return nil }
        guard let value = TimeSpan.milliseconds(text), range.contains(value) else {
            throw UsageError(
                "--\(name) must be a duration such as 15s or 10m, from \(TimeSpan.text(range.lowerBound)) to \(TimeSpan.text(range.upperBound))."
            )
        }
        return value
    }

    /// Returns a size such as `64MiB`, in bytes; nil if the option is not given.
    func size(_ name: String, in range: ClosedRange<Int>) throws -> Int? {
        guard let text = self[name] else { return nil }
        guard let value = ByteCount.parse(text), range.contains(value) else {
            throw UsageError("--\(name) must be \(Self.sizes(range)).")
        }
        return value
    }

    private static func sizes(_ range: ClosedRange<Int>) -> String {
        let least = ByteCount.exactText(Int64(range.lowerBound))
        guard range.upperBound < Int.max else { return "a size such as 64MiB or 4GiB, of at least \(least)" }
        return "a size such as 64MiB or 4GiB, from \(least) to \(ByteCount.exactText(Int64(range.upperBound)))"
    }
}

/// Files of `name = value` lines; `#` begins a comment line.
enum ConfigurationFile {
    static func read(_ path: String, _ specification: CommandSpecification) throws -> [String: String] {
        let text = String(decoding: try Files.read(path), as: UTF8.self)
        var values: [String: String] = [:]
        for (number, line) in text.split(omittingEmptySubsequences: false, whereSeparator: isLineEnd).enumerated() {
            let line = line.drop { $0 == " " || $0 == "\t" }
            if line.isEmpty || line.hasPrefix("#") || line.hasPrefix("\r") { continue }
            guard let equals = line.firstIndex(of: "=") else {
                throw UsageError("\(path), line \(number + 1): expected 'name = value'.")
            }
            let name = Self.trimmed(line[..<equals])
            guard let option = specification.configurable.first(where: { $0.name == name }) else {
                let nearest = NearestWord.all(name, among: specification.configurable.map(\.name))
                throw UsageError(
                    "\(path), line \(number + 1): there is no option \"\(name)\".\(NearestWord.question(nearest))")
            }
            ParsedArguments.give(Self.trimmed(line[line.index(after: equals)...]), to: option, in: &values)
        }
        return values
    }

    /// Whether a character ends a line; "\r\n" is one character.
    private static func isLineEnd(_ character: Character) -> Bool { character == "\n" || character == "\r\n" }

    static func trimmed(_ text: Substring) -> String {
        let isBlank = { (character: Character) in character == " " || character == "\t" || character == "\r" }
        var text = text.drop(while: isBlank)
        while let last = text.last, isBlank(last) { text = text.dropLast() }
        return String(text)
    }
}

/// The environment that the program was started with.
struct Environment {
    private let values: [String: String]

    static var current: Environment {
        var values: [String: String] = [:]
        var pointer = environ
        while let entry = pointer.pointee {
            let text = String(cString: entry)
            if let equals = text.firstIndex(of: "=") {
                values[String(text[..<equals])] = String(text[text.index(after: equals)...])
            }
            pointer += 1
        }
        return Environment(values: values)
    }

    init(values: [String: String]) { self.values = values }

    /// All variables, for callers that look names up later.
    var all: [String: String] { values }

    subscript(_ name: String) -> String? { values[name] }
}

/// A path given on the command line.
enum PathArgument {
    static func parse(_ text: String) throws -> Path {
        let path = Path(splitting: text)
        guard path.depth <= KeyRules.maxDepth else {
            throw UsageError("\(text) is nested more than \(KeyRules.maxDepth) levels deep.")
        }
        for key in path.keys {
            if let violation = KeyRules.violation(in: key) {
                throw UsageError("The path \(text) has a key that \(violation.reason).")
            }
        }
        return path
    }
}
