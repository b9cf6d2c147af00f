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
