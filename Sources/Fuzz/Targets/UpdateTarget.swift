import Tree

extension FuzzTarget {
    /// Bodies of updates: an object of paths.
    static let update = FuzzTarget(
        name: "update",
        corpus: Corpora.json + [
            #"{"a/b":1,"c":{"d":2}}"#, #"{"/a//b/":null,"p/.priority":1}"#, #"{".priority":"x"}"#, "null",
            #"{"a/b/c/d/e/f/g/h":{"i":{"j":{".sv":"timestamp"}}},"n":{".sv":{"increment":1}}}"#,
        ], tokens: Corpora.tokens + ["/b", "a/", "\"a/b/c\":", "/.priority\":"]
    ) { input, summary in
        let update: (changes: [JSONParser.ParsedChange], hasServerValue: Bool)?
        do throws(JSONError) {
            update = try JSONParser.parseUpdate(input)
        } catch {
            return NodeClaims.error(error, in: input, &summary)
        }
        guard let update else { return nil }
        summary.noteSize(update.changes.count)
        guard let whole = try? JSONParser.parse(#"{"a":{"b":{".value":1,".priority":2},"c":3},"d":4,".priority":5}"#)
        else {
            return "the initial value is refused"
        }
        var tree = whole
        for change in update.changes {
            let depth = change.path.depth - (change.path.namesPriority ? 1 : 0)
            summary.noteSize(depth)
            if change.path.isRoot || depth > KeyRules.maxDepth { return "a path of \(change.path.depth) keys" }
            for key in change.path.keys where key != .priority {
                if let violation = KeyRules.violation(in: key) { return "a key that \(violation.reason)" }
            }
            if !change.path.namesPriority, let wrong = NodeClaims.value(change.node, &summary) { return wrong }
            let value = change.node.resolved(existing: tree[change.path], timestamp: 1)
            if let wrong = NodeClaims.stored(value, replacing: change.path, in: tree) { return wrong }
            tree = tree.replacing(change.path, with: value)
        }
        return nil
    }.measuring { input in
        guard let update = try? JSONParser.parseUpdate(input) else { return }
        _ = Change.overlap(in: update.changes.map { Change(path: $0.path, value: $0.node) })
    }
}
