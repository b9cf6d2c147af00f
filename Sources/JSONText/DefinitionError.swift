/// All mistakes in a definition file, with their positions.
public struct DefinitionError: Error, Sendable, Equatable, CustomStringConvertible {
    public struct Problem: Sendable, Equatable {
        /// The mistake's position, or nil if the definition didn't come from a file.
        public let position: SourcePosition?
        /// The part of the definition, such as `columns.title.type`.
        public let part: String
        public let reason: String

        public init(position: SourcePosition?, part: String, reason: String) {
            self.position = position
            self.part = part
            self.reason = reason
        }
    }

    /// The file's name, with which messages begin.
    public let source: String
    public let problems: [Problem]

    public init(source: String, problems: [Problem]) {
        self.source = source
        self.problems = problems
    }

    public var description: String {
        problems.map { problem in
            let position = problem.position.map { ":\($0.line):\($0.column)" } ?? ""
            let part = problem.part.isEmpty ? "" : "\(problem.part): "
            return "\(source)\(position): \(part)\(problem.reason)"
        }.joined(separator: "\n")
    }
}

/// Reads definitions written by people, and notes every mistake instead of stopping at the first.
public protocol DefinitionNoting {
    /// The mistakes found so far.
    var problems: [DefinitionError.Problem] { get set }
}

extension DefinitionNoting {
    /// Notes a mistake.
    ///
    /// - Parameter part: the part of the definition, such as `columns.title.type`.
    public mutating func note(_ position: SourcePosition, _ part: String, _ reason: String) {
        problems.append(.init(position: position, part: part, reason: reason))
    }

    /// Returns an object's members by key, and notes keys that are not among `allowed`. Notes a mistake and returns nil if the
    /// value is no object.
    public mutating func object(_ value: SourceValue, _ part: String, allowed: [String]) -> [String: SourceValue]? {
        guard case .object(let members) = value.kind else {
            note(value.position, part, "this should be an object, but is \(value.kindName)")
            return nil
        }
        var found: [String: SourceValue] = [:]
        for member in members {
            if !allowed.contains(member.key) {
                let path = part.isEmpty ? member.key : "\(part).\(member.key)"
                note(member.position, path, "is unknown here; known are \(allowed.joined(separator: ", "))")
            }
            found[member.key] = member.value
        }
        return found
    }
}
