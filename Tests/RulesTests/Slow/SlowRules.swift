/// A node of a generated rules document.
struct SlowNode {
    var read: SlowExpression?
    var write: SlowExpression?
    var validate: SlowExpression?
    var children: [String: SlowNode] = [:]
    /// The wildcard's name without its dollar sign, and its node; at most one.
    var wildcard: [String: SlowNode] = [:]

    var text: String {
        var members: [String] = []
        func quoted(_ text: String) -> String {
            "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
        }
        if let read { members.append("\".read\": \(quoted(read.text))") }
        if let write { members.append("\".write\": \(quoted(write.text))") }
        if let validate { members.append("\".validate\": \(quoted(validate.text))") }
        for (key, node) in children.sorted(by: { $0.key < $1.key }) { members.append("\"\(key)\": \(node.text)") }
        for (name, node) in wildcard { members.append("\"\(name)\": \(node.text)") }
        return "{" + members.joined(separator: ", ") + "}"
    }

    func accepts(captures: [String] = []) -> Bool {
        let reading = SlowTypes(isRead: true, captures: captures)
        let writing = SlowTypes(isRead: false, captures: captures)
        return read.map(reading.accepts) != false && write.map(writing.accepts) != false
            && validate.map(writing.accepts) != false
            && children.values.allSatisfy { $0.accepts(captures: captures) }
            && wildcard.allSatisfy { $0.value.accepts(captures: captures + [$0.key]) }
    }

    /// Returns the rule node for a path, with its captured keys; it is searched from the root each time.
    func matching(_ path: [String]) -> (node: SlowNode, captures: [String: String])? {
        var node = self
        var captures: [String: String] = [:]
        for key in path {
            if let child = node.children[key] {
                node = child
            } else if let (name, child) = node.wildcard.first {
                node = child
                captures[name] = key
            } else {
                return nil
            }
        }
        return (node, captures)
    }
}

/// A second implementation of authorization: the reference's pseudocode, with every path looked up from the root.
struct SlowRules {
    let root: SlowNode
    let auth: Plain
    let now: Double
    let query: [String: Plain]

    private func ask(
        _ rule: KeyPath<SlowNode, SlowExpression?>, at path: [String], _ data: Plain, _ newData: Plain
    ) -> Bool? {
        guard let (node, captures) = root.matching(path), let expression = node[keyPath: rule] else { return nil }
        let evaluator = SlowEvaluator(
            data: data, newData: newData, path: path, captures: captures, auth: auth, now: now, query: query)
        return evaluator.run(expression)
    }

    private func prefixes(_ path: [String]) -> [[String]] { (0...path.count).map { Array(path.prefix($0)) } }

    func mayRead(_ path: [String], _ data: Plain) -> Bool {
        prefixes(path).contains { ask(\.read, at: $0, data, .null) == true }
    }

    func mayWrite(_ paths: [[String]], _ data: Plain, _ newData: Plain) -> Bool {
        paths.allSatisfy { path in
            prefixes(path).contains { ask(\.write, at: $0, data, newData) == true }
                && prefixes(path).allSatisfy { isValid($0, data, newData) }
                && isValidBelow(path, data, newData)
        }
    }

    private func isValid(_ path: [String], _ data: Plain, _ newData: Plain) -> Bool {
        newData[path] == .null || ask(\.validate, at: path, data, newData) != false
    }

    private func isValidBelow(_ path: [String], _ data: Plain, _ newData: Plain) -> Bool {
        guard case .object(let members) = newData[path] else { return true }
        return members.keys.allSatisfy { key in
            let child = path + [key]
            guard root.matching(child) != nil else { return true }
            return isValid(child, data, newData) && isValidBelow(child, data, newData)
        }
    }
}
