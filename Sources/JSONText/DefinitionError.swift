/// What is wrong with a definition file: every mistake, and where it is.
public struct DefinitionError: Error, Sendable, Equatable, CustomStringConvertible {
    public struct Problem: Sendable, Equatable {
        /// Nil where the definition didn't come from a file.
        public let place: SourcePlace?
        /// The part of the definition, such as `columns.title.type`.
        public let part: String
        public let reason: String

        public init(place: SourcePlace?, part: String, reason: String) {
            self.place = place
            self.part = part
            self.reason = reason
        }
    }

    /// The file's name, as messages begin with it.
    public let source: String
    public let problems: [Problem]

    public init(source: String, problems: [Problem]) {
        self.source = source
        self.problems = problems
    }

    public var description: String {
        problems.map { problem in
            let place = problem.place.map { ":\($0.line):\($0.column)" } ?? ""
            let part = problem.part.isEmpty ? "" : "\(problem.part): "
            return "\(source)\(place): \(part)\(problem.reason)"
        }.joined(separator: "\n")
    }
}

/// Reads definitions that people write, and notes every mistake on the way instead of ending at the first.
public protocol DefinitionNoting {
    /// What has been found wrong up to now.
    var problems: [DefinitionError.Problem] { get set }
}

extension DefinitionNoting {
    /// Notes a mistake.
    ///
    /// - Parameter part: the part of the definition, such as `columns.title.type`.
    public mutating func note(_ place: SourcePlace, _ part: String, _ reason: String) {
        problems.append(.init(place: place, part: part, reason: reason))
    }

    /// An object's members by key; notes keys that are not among `allowed`.
    public mutating func object(_ value: SourceValue, _ part: String, allowed: [String]) -> [String: SourceValue]? {
        guard case .object(let members) = value.kind else {
            note(value.place, part, "this should be an object, but is \(value.kindName)")
            return nil
        }
        var found: [String: SourceValue] = [:]
        for member in members {
            if !allowed.contains(member.key) {
                let path = part.isEmpty ? member.key : "\(part).\(member.key)"
                note(member.place, path, "is unknown here; known are \(allowed.joined(separator: ", "))")
            }
            found[member.key] = member.value
        }
        return found
    }
}
