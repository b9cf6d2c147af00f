public import LogStore
import Tree

/// What the data suggest for a mirror: a definition, and the evidence for it.
public struct Inference: Sendable {
    public struct Evidence: Sendable {
        public let column: String
        public let type: ColumnType
        public let path: String
        /// Records that have a value there.
        public let present: Int
        /// Of those, the ones that would not fit.
        public let misfits: Int
    }

    public let definition: MirrorDefinition
    public let evidence: [Evidence]
    public let recordCount: Int
    /// Places below records that became no column: what is there goes to the rest.
    public let placesLeftOut: Int

    /// Reads the records of a pattern (a path without captures stands for its children) and proposes a definition.
    ///
    /// - Parameter limit: the most records that are looked at.
    public static func run(
        _ source: LogConnection, _ namespace: NamespaceRecord, pattern text: String, limit: Int
    ) throws -> Inference {
        let pattern: PathPattern
        do {
            pattern = try PathPattern(
                text.contains("{") ? text : (text.hasSuffix("/") ? text : text + "/") + "{\(captureName(text))}")
        } catch {
            throw MirrorError.refused("No path: \(error.reason).")
        }
        guard try source.beginSnapshot(namespace.id) != nil else {
            throw LogStoreError.unknownNamespace(namespace.name)
        }
        defer { source.endSnapshot() }
        var survey = Survey()
        do {
            try RecordStream.read(namespace.id, pattern, above: [], source) { _, value, _ in
                guard survey.recordCount < limit else { throw EnoughRecords() }
                survey.take(value)
            }
        } catch is EnoughRecords {}
        guard survey.recordCount > 0 else {
            throw MirrorError.refused("There is no record at \(pattern) to infer columns from.")
        }
        return propose(survey, pattern)
    }

    private struct EnoughRecords: Error {}

    /// `post_id` for `/posts`, `id` where the path gives no name.
    private static func captureName(_ path: String) -> String {
        let last = Path(splitting: path).last?.text ?? ""
        var name = columnName([Key(last)])
        if name.hasSuffix("ies"), name.count > 4 {
            name = name.dropLast(3) + "y"
        } else if name.hasSuffix("s"), name.count > 2 {
            name.removeLast()
        }
        return name.isEmpty ? "id" : "\(name)_id"
    }

    /// A path as a column's name: `author/firstName` becomes `author_first_name`.
    private static func columnName(_ keys: [Key]) -> String {
        var name = ""
        for key in keys {
            if !name.isEmpty { name += "_" }
            var lastWasLower = false
            for scalar in key.text.unicodeScalars {
                switch scalar {
                case "A"..."Z":
                    if lastWasLower { name += "_" }
                    name += String(scalar).lowercased()
                    lastWasLower = false
                case "a"..."z", "0"..."9":
                    name.unicodeScalars.append(scalar)
                    lastWasLower = true
                default:
                    if !name.hasSuffix("_"), !name.isEmpty { name += "_" }
                    lastWasLower = false
                }
            }
        }
        while name.hasSuffix("_") { name.removeLast() }
        return String(name.prefix(50))
    }

    private static func propose(_ survey: Survey, _ pattern: PathPattern) -> Inference {
        var taken = Set(pattern.captures)
        var columns: [MirrorDefinition.Column] = []
        var evidence: [Evidence] = []
        var leftOut = 0
        for (path, place) in survey.places.sorted(by: { $0.value.order < $1.value.order }) {
            guard let (type, misfits) = place.best, columns.count < 200 else {
                leftOut += 1
                continue
            }
            var name = path.isRoot ? "value" : columnName(path.keys)
            if name.isEmpty { name = "column" }
            let base = name
            var number = 2
            while !taken.insert(name).inserted {
                name = "\(base)_\(number)"
                number += 1
            }
            columns.append(
                .init(name: name, type: type, path: path, defaultValue: .null, notNull: nil, comment: nil))
            let shown = path.isRoot ? "." : String(path.description.unicodeScalars.dropFirst())
            evidence.append(
                Evidence(column: name, type: type, path: shown, present: place.present, misfits: misfits))
        }
        let table = columnName([pattern.base.last ?? Key("records")])
        var rest = "rest"
        while !taken.insert(rest).inserted { rest += "_" }
        let definition = MirrorDefinition(
            name: table.isEmpty ? "records" : table, namespace: nil, pattern: pattern, schema: "mirror",
            table: table.isEmpty ? "records" : table, target: nil, comment: nil,
            keys: pattern.captures.map { .init(name: $0, type: .text, comment: nil) }, columns: columns,
            rest: .init(name: rest, comment: nil), indexes: [],
            keptErrors: MirrorDefinition.defaultKeptErrors)
        return Inference(
            definition: definition, evidence: evidence, recordCount: survey.recordCount, placesLeftOut: leftOut)
    }
}
