import Rules

struct RulesTestCommand: Command {
    static let specification = CommandSpecification(
        "rules test", "runs a table of cases and tells which don't hold; exits 1 if there are any",
        positionals: ["FILE|-"], options: [.json])

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let file = arguments.positionals[0]
        let text = try Files.read(file, standardInput: console.input)
        let report: RulesConformance.Report
        do throws(RulesError) {
            report = try RulesConformance.run(text)
        } catch {
            throw CommandFailure("\(file) is not a table of cases:\n\(error)")
        }
        if arguments.has("json") {
            console.write(json(report).line)
        } else {
            console.writeBytes(Array(report.description.utf8))
        }
        guard report.failed == 0 else {
            throw CommandFailure("\(report.failed) of \(report.results.count) cases failed.")
        }
        guard !report.results.isEmpty else { throw CommandFailure("\(file) has no cases.") }
    }

    private static func json(_ report: RulesConformance.Report) -> JSONOutput {
        .object([
            "cases": .number(Int64(report.results.count)), "passed": .number(Int64(report.passed)),
            "failed": .number(Int64(report.failed)), "disputed": .number(Int64(report.disputed)),
            "results": .list(
                report.results.map { result in
                    switch result.outcome {
                    case .passed: .object(["name": .text(result.name), "outcome": .text("passed")])
                    case .failed(let reason):
                        .object([
                            "name": .text(result.name), "outcome": .text("failed"), "reason": .text(reason),
                        ])
                    case .disputed(let reason, let dispute):
                        .object([
                            "name": .text(result.name), "outcome": .text("disputed"), "reason": .text(reason),
                            "dispute": .text(dispute),
                        ])
                    }
                }),
        ])
    }
}
