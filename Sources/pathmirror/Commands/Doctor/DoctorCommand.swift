import Glibc
import HTTPClient
import LogStore
import Runtime

/// Says what is wrong with a deployment, and what to do.
struct DoctorCommand: Command {
    static let specification = CommandSpecification(
        "doctor",
        "looks at the databases, the schema, rights, clocks, replication, disk, mirrors, feeds and a gateway's options; exits 1 if something is wrong",
        options: [
            .init("gateway", "URL[,URL…]", "gateways to ask whether they are ready"),
            .init("data", "DIR", "the data directory of a running 'pathmirror dev'; default .pathmirror"), .json,
        ] + ServeCommand.specification.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        var findings: [Finding] = []
        let options = settings(arguments, &findings)
        defer { options?.authentication.client?.stop() }
        if let options {
            findings += SettingsDiagnosis.findings(
                options, listen: arguments["listen"], now: Clock.unixMilliseconds / 1_000)
        }
        let home = try DatabaseVisit(arguments, options)
        findings += home.findings()
        findings += PlacementVisit(home, arguments).findings()
        findings += try gateways(arguments)
        write(findings, asJSON: arguments.has("json"), console)
        let problems = findings.count { $0.level == .problem }
        if problems > 0 { throw CommandFailure("Things that are wrong: \(problems).") }
    }

    /// The options as `serve` would take them; nil, with a finding, where it would refuse them.
    private static func settings(_ arguments: ParsedArguments, _ findings: inout [Finding]) -> ServiceOptions? {
        // What the log would say is among the findings.
        let nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC)
        defer { if nowhere >= 0 { close(nowhere) } }
        do {
            let options = try ServiceOptions(arguments, logDescriptor: nowhere)
            findings.append(.ok("settings.options", "'pathmirror serve' takes these options"))
            return options
        } catch {
            let why = (error as? UsageError)?.message ?? "\(error)"
            findings.append(
                .problem("settings.options", "'pathmirror serve' refuses these options: \(why)", fix: "correct them"))
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
        // What is worst comes last, next to the prompt.
        for level in Finding.Level.allCases {
            for finding in findings where finding.level == level {
                let word = level.rawValue
                console.write("\(word)\(String(repeating: " ", count: 9 - word.count))\(finding.what)")
                if let fix = finding.fix { console.write("         → \(fix)") }
            }
        }
        let counts = Finding.Level.allCases.reversed().map { level in
            "\(findings.count { $0.level == level }) \(level.rawValue)"
        }
        console.write("looked at: \(findings.count) (\(counts.joined(separator: ", ")))")
    }
}
