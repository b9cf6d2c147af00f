import Glibc
import HTTPClient
import LogStore
import Runtime

/// Reports problems of a deployment, and their fixes.
struct DoctorCommand: Command {
    static let specification = CommandSpecification(
        "doctor",
        "checks the databases, the schema, rights, clocks, replication, disk, mirrors, feeds, followers and a gateway's options; exits 1 if it finds a problem",
        options: [
            .init("config", "FILE", "the gateway's options, as a file for 'pathmirror serve --config'"),
            .init("gateway", "URL[,URL…]", "URLs of gateways, whose readiness is checked"), DatabaseLocator.urlOption,
            DatabaseLocator.fileOption, DatabaseLocator.dataOption, DatabaseLogins.option, .json,
        ], inherited: ServeCommand.specification.options,
        notes: [
            "The gateway's options are read from the file of --config and from the environment, as by 'pathmirror serve'."
        ])

    static let whenInterrupted = "The checks are incomplete, and nothing was changed."

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        var findings: [Finding] = []
        let options = settings(arguments, &findings)
        defer { options?.authentication.client?.stop() }
        if let options, hasSettings(arguments) {
            findings += SettingsDiagnosis.findings(
                options, listen: arguments["listen"], now: Clock.unixMilliseconds / 1_000)
        }
        findings += SettingsDiagnosis.variables(arguments.environment)
        findings += SettingsDiagnosis.files([try? DatabaseLogins(arguments).warning()].compactMap { $0 })
        let primary = try DatabaseVisit(arguments, options, console.interruption)
        findings += try console.reporting("checking the database", isQuiet: arguments.has("json")) { line in
            var found = primary.findings()
            try console.interruption.check()
            line.note("checking other databases")
            found += PlacementVisit(primary, arguments).findings()
            try console.interruption.check()
            line.note("asking gateways")
            found += try gateways(arguments)
            try console.interruption.check()
            return found
        }
        write(findings.map { $0.completing(arguments) }, asJSON: arguments.has("json"), console)
        let problems = findings.count { $0.level == .problem }
        if problems > 0 { throw CommandFailure("Problems found: \(problems).") }
    }

    /// Whether a gateway's options are given: a configuration file, or any option besides the database.
    private static func hasSettings(_ arguments: ParsedArguments) -> Bool {
        arguments["config"] != nil
            || specification.inherited.contains { option in
                // Operators set PATHMIRROR_NS for other commands as well.
                option.name != "ns" && specification.option(named: option.name) == nil
                    && arguments.source(option.name) != nil
            }
    }

    /// The options as `serve` would read them. Nil, with a finding, if `serve` would refuse them.
    private static func settings(_ arguments: ParsedArguments, _ findings: inout [Finding]) -> ServiceOptions? {
        // The findings contain everything that the log would say.
        let nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC)
        defer { if nowhere >= 0 { close(nowhere) } }
        do {
            let options = try ServiceOptions(arguments, logDescriptor: nowhere)
            if hasSettings(arguments) {
                _ = try ServeCommand.addresses(arguments, options)
                _ = try NamespaceOptions.listed(arguments)
            }
            findings.append(
                hasSettings(arguments)
                    ? .ok("settings.options", "'pathmirror serve' accepts these options")
                    : .note(
                        "settings.options", "options check skipped: no options of a gateway are given",
                        fix: "give --config FILE, or set the gateways' environment variables"))
            return options
        } catch {
            let why = (error as? UsageError)?.message ?? "\(error)"
            findings.append(
                .problem("settings.options", "'pathmirror serve' rejects these options: \(why)", fix: "correct them"))
            return nil
        }
    }

    private static func gateways(_ arguments: ParsedArguments) throws -> [Finding] {
        let urls = (arguments["gateway"] ?? "").split(separator: ",").map(String.init)
        guard !urls.isEmpty else { return [] }
        let client = try HTTPClient()
        defer { client.stop() }
        return urls.flatMap { GatewayVisit(url: $0).findings(client) }
    }

    private static func write(_ findings: [Finding], asJSON: Bool, _ console: Console) {
        if asJSON {
            for finding in findings {
                console.write(
                    JSONOutput.object([
                        "check": .text(finding.check), "level": .text(finding.level.rawValue),
                        "what": .text(finding.what), "fix": JSONOutput(finding.fix),
                        "database": JSONOutput(finding.database),
                    ]).line)
            }
            return
        }
        let indent = 9
        let width = console.outputWidth
        // The worst findings come last, next to the prompt.
        for level in Finding.Level.allCases {
            for finding in findings where finding.level == level {
                let word = level.rawValue
                let space = String(repeating: " ", count: indent - word.count)
                console.write(
                    "\(word)\(space)" + TextWrap.wrapped(finding.what, to: width, indent: indent, used: indent))
                guard let fix = finding.fix else { continue }
                let arrow = String(repeating: " ", count: indent) + "→ "
                console.write(arrow + TextWrap.wrapped(fix, to: width, indent: indent + 2, used: indent + 2))
            }
        }
        let counts = Finding.Level.allCases.reversed().map { level in
            "\(findings.count { $0.level == level }) \(level.rawValue)"
        }
        console.write(
            TextWrap.wrapped("looked at: \(findings.count) (\(counts.joined(separator: ", ")))", to: width, indent: 2))
    }
}
