internal import Tree

/// Runs a table of rule cases, in the format of the reference's `rules-conformance.json`. Authors of rules can use this format
/// for their own tests.
public enum RulesConformance {
    public struct Report: Sendable {
        public var results: [CaseResult] = []

        public var passed: Int { count { $0 == .passed } }
        public var failed: Int { count { if case .failed = $0 { true } else { false } } }
        /// The number of cases that are marked as disputed and fail.
        public var disputed: Int { count { if case .disputed = $0 { true } else { false } } }

        private func count(_ isCounted: (Outcome) -> Bool) -> Int {
            results.count { isCounted($0.outcome) }
        }

        /// One line for each failed case, and a summary line.
        public var description: String {
            var lines: [String] = []
            for result in results {
                switch result.outcome {
                case .passed: continue
                case .failed(let reason): lines.append("FAIL \(result.name): \(reason)")
                case .disputed(let reason, let dispute):
                    lines.append("DISPUTED \(result.name): \(reason) (\(dispute))")
                }
            }
            var summary = "\(results.count) cases: \(passed) passed, \(failed) failed"
            if disputed > 0 { summary += ", \(disputed) disputed" }
            lines.append(summary)
            return lines.joined(separator: "\n") + "\n"
        }
    }

    public struct CaseResult: Sendable {
        public let name: String
        public let outcome: Outcome
    }

    public enum Outcome: Sendable, Equatable {
        case passed
        case failed(String)
        /// The case is marked as disputed, with a reason, and has failed.
        case disputed(String, dispute: String)
    }

    /// - Parameter file: the table's text. It may contain comments and trailing commas.
    /// - Throws: if the table itself can't be read.
    public static func run(_ file: [UInt8]) throws(RulesError) -> Report {
        let cases: [ConformanceCase]
        do { cases = try ConformanceReader.cases(file) } catch { throw RulesError([error], in: file) }
        var report = Report()
        for row in cases {
            let outcome: Outcome
            switch (Self.failure(of: row), row.disputed) {
            case (nil, _): outcome = .passed
            case (let reason?, nil): outcome = .failed(reason)
            case (let reason?, let dispute?): outcome = .disputed(reason, dispute: dispute)
            }
            report.results.append(CaseResult(name: row.name, outcome: outcome))
        }
        return report
    }

    /// Returns the reason why the case fails, or nil if it passes.
    private static func failure(of row: ConformanceCase) -> String? {
        let rules: RuleSet
        do { rules = try RuleSet(json: row.rules) } catch { return failure(of: row, refused: error) }
        if row.expectation == .uploadError { return "the upload was accepted; expected an error" }
        let decision: Decision
        do { decision = try decide(row, rules) } catch { return "the value cannot be written: \(error.reason)" }
        guard decision.isAllowed != (row.expectation == .allow) else { return nil }
        guard case .denied(let denial) = decision else { return "allowed; expected deny" }
        let rule = denial.rule.map { rules.info($0) }
        let location = rule.map { " by \($0.kind.rawValue) of \($0.pattern) at \($0.position)" } ?? ""
        return "denied (\(denial.reason), \(denial.path))\(location); expected allow"
    }

    private static func failure(of row: ConformanceCase, refused error: RulesError) -> String? {
        guard row.expectation == .uploadError else {
            return "the upload was refused: \(error.problems.first?.description ?? "")"
        }
        let message = error.problems.map(\.message).joined(separator: "\n")
        if let expected = row.error, expected != message {
            return "the error is \"\(message)\"; expected \"\(expected)\""
        }
        if let expected = row.errorPosition, let problem = error.problems.first {
            let position = "\(problem.line):\(problem.column)"
            if position != expected { return "the position is \(position); expected \(expected)" }
        }
        return nil
    }

    private static func decide(_ row: ConformanceCase, _ rules: RuleSet) throws(JSONError) -> Decision {
        let auth = AuthContext(auth: row.auth)
        switch row.operation {
        case .read, .query:
            return rules.mayRead(row.path, query: row.query, root: row.data, auth: auth, now: row.now)
        case .write:
            let value = try JSONParser.parse(row.value).node
            let new = row.data.replacing(
                row.path, with: value.resolved(existing: row.data[row.path], timestamp: row.now))
            return rules.mayWrite([row.path], root: row.data, newRoot: new, auth: auth, now: row.now)
        case .update:
            var new = row.data
            var paths: [Path] = []
            for change in try JSONParser.parseUpdate(row.value)?.changes ?? [] {
                let path = row.path.appending(change.path)
                paths.append(path)
                new = new.replacing(
                    path, with: change.node.resolved(existing: row.data[path], timestamp: row.now))
            }
            return rules.mayWrite(paths, root: row.data, newRoot: new, auth: auth, now: row.now)
        }
    }
}
