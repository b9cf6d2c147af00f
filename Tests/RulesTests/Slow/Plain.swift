import Tree

/// Data in its plainest form, for the slow evaluator.
indirect enum Plain: Equatable {
    case null
    case bool(Bool)
    case number(Double)
    case string(String)
    case object([String: Plain])

    var node: Node {
        switch self {
        case .null: .null
        case .bool(let value): .bool(value)
        case .number(let value): Node(number: value)
        case .string(let text): .string(text)
        case .object(let members): Node(children: members.map { (Key($0.key), $0.value.node) })
        }
    }

    subscript(path: [String]) -> Plain {
        guard let key = path.first else { return self }
        guard case .object(let members) = self, let member = members[key] else { return .null }
        return member[Array(path.dropFirst())]
    }

    func replacing(_ path: [String], with value: Plain) -> Plain {
        guard let key = path.first else { return value.pruned }
        var members: [String: Plain] = [:]
        if case .object(let own) = self { members = own }
        let child = (members[key] ?? .null).replacing(Array(path.dropFirst()), with: value)
        if child == .null, members[key] == nil { return self }
        members[key] = child
        return Plain.object(members).pruned
    }

    /// The value without nulls and empty objects.
    var pruned: Plain {
        guard case .object(let members) = self else { return self }
        let rest = members.mapValues(\.pruned).filter { $0.value != .null }
        return rest.isEmpty ? .null : .object(rest)
    }
}
