public import Tree

extension RuleSet {
    /// Decides about a read like `mayRead`, and explains the decision. Administrators are treated like other callers.
    public func explainRead(
        _ path: Path, query: QueryContext = .plain, root: Node, auth: AuthContext, now: Int64
    ) -> Explanation {
        let surroundings = EvaluationEnvironment(auth: auth.auth, now: Double(now), query: query)
        var walk = Walk(compiled, surroundings, limits: limits, tracer: ExplainingTracer())
        let decision = walk.read(path, root: root)
        return explanation(decision, walk.evaluator.tracer)
    }

    /// Decides about a write like `mayWrite`, and explains the decision. Administrators are treated like other callers.
    public func explainWrite(
        _ paths: [Path], root: Node, newRoot: Node, auth: AuthContext, now: Int64
    ) -> Explanation {
        let surroundings = EvaluationEnvironment(auth: auth.auth, now: Double(now), query: .plain)
        var walk = Walk(compiled, surroundings, limits: limits, tracer: ExplainingTracer())
        for path in paths {
            if let denial = walk.write(path, root: root, new: newRoot) {
                return explanation(.denied(denial), walk.evaluator.tracer)
            }
        }
        return explanation(.allowed, walk.evaluator.tracer)
    }

    private func explanation(_ decision: Decision, _ tracer: ExplainingTracer) -> Explanation {
        let steps = tracer.runs.map { run in
            var error: String?
            var result: Bool?
            switch run.result {
            case .success(let value): result = value
            case .failure(let failure): error = failure.reason.text
            }
            return Explanation.Step(
                rule: info(run.rule), path: run.path, result: result, error: error, parts: parts(of: run))
        }
        let deciding: RuleInfo?
        switch decision {
        case .allowed:
            let granting = steps.filter { $0.rule.kind != .validate && $0.result == true }
            deciding = granting.count == 1 && !steps.contains { $0.rule.kind == .validate } ? granting[0].rule : nil
        case .denied(let denial): deciding = denial.rule.map(info)
        }
        return Explanation(decision: decision, steps: steps, deciding: deciding)
    }

    /// Returns the rule's subexpressions in the order of the text, outer ones before their contents, without literals.
    private func parts(of run: ExplainingTracer.Run) -> [Explanation.Part] {
        let rule = compiled.sources[Int(run.rule.index)]
        let text = Array(rule.text.utf8)
        var failure: (span: Range<Int32>, text: String)?
        if case .failure(let error) = run.result {
            failure = (compiled.program.spans[Int(error.ref.index)], "error: \(error.reason.text)")
        }
        var values: [Range<Int32>: String] = [:]
        // If two operations have the same span, the outer one comes last, and its value is used.
        for index in rule.operations where Self.isShown(compiled.program.operations[index]) {
            let span = compiled.program.spans[index]
            let containsFailure = failure.map {
                span.lowerBound <= $0.span.lowerBound && span.upperBound >= $0.span.upperBound
            }
            values[span] = run.values[Int32(index)] ?? (containsFailure == true ? "no value" : "not evaluated")
        }
        if let failure { values[failure.span] = failure.text }
        let spans = values.keys.sorted {
            ($0.lowerBound, -Int($0.upperBound)) < ($1.lowerBound, -Int($1.upperBound))
        }
        var open: [Range<Int32>] = []
        return spans.map { span in
            while let last = open.last, last.upperBound < span.upperBound || last.upperBound <= span.lowerBound {
                open.removeLast()
            }
            defer { open.append(span) }
            let source = String(decoding: text[Int(span.lowerBound)..<Int(span.upperBound)], as: UTF8.self)
            return Explanation.Part(
                text: Explanation.singleLine(source), level: open.count, value: values[span] ?? "")
        }
    }

    private static func isShown(_ operation: Op) -> Bool {
        switch operation {
        case .null, .number, .text, .boolean, .key, .path, .joined, .list: false
        default: true
        }
    }
}
