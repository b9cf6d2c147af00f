import Tree

/// The fields of records: those that become columns, and those with records of their own.
struct RecordFields {
    struct Column {
        let path: Path
        let survey: ColumnSurvey
        /// The number of records with a value at `path`, and the first of them.
        let count: Int
        let example: Int
        /// The first record without a value.
        let missing: Int?
    }

    struct Collection {
        let path: Path
        let keys: Shape.Keys
        let values: [ColumnSurvey.Found]
    }

    private(set) var columns: [Column] = []
    private(set) var collections: [Collection] = []
    /// Paths that became neither, each with a record that has a value there. The rest column holds these values.
    private(set) var leftOut: [(record: Int, path: Path)] = []
    private let records: [Node]
    private let known: KnownCollections

    /// Objects at this depth in a record become `jsonb`.
    private static let maxDepth = 4
    private static let maxColumns = 200

    init(_ records: [Node], among known: KnownCollections) {
        self.records = records
        self.known = known
    }

    mutating func survey() {
        survey(records.enumerated().map { .init(record: $0.offset, value: $0.element) }, .root)
    }

    private mutating func survey(_ found: [ColumnSurvey.Found], _ path: Path) {
        let shape = Shape(found.lazy.map(\.value), among: known)
        switch shape {
        case .leaf: column(found, path, ColumnSurvey(found))
        case .set: column(found, path, ColumnSurvey(found, as: .textArray))
        case .json: column(found, path, ColumnSurvey(found, as: .jsonb))
        // The children of the record itself are its fields, even if they look like a collection, because the pattern defines
        // the records.
        case .collection(let keys) where !path.isRoot:
            collections.append(Collection(path: path, keys: keys, values: found.filter(\.value.isBranch)))
            if let leaf = found.first(where: { !$0.value.isBranch }) { leftOut.append((leaf.record, path)) }
        case .collection, .record:
            guard path.depth < Self.maxDepth else { return column(found, path, ColumnSurvey(found, as: .jsonb)) }
            fields(found, path)
        }
    }

    /// Surveys the members of objects, in the order in which they first appear.
    private mutating func fields(_ found: [ColumnSurvey.Found], _ path: Path) {
        var order: [Key] = []
        var values: [Key: [ColumnSurvey.Found]] = [:]
        var leaf: Int?
        for (record, value) in found.lazy.map({ ($0.record, $0.value) }) {
            guard case .branch(let branch) = value else {
                leaf = leaf ?? record
                continue
            }
            for entry in branch.children {
                if values[entry.key] == nil { order.append(entry.key) }
                values[entry.key, default: []].append(.init(record: record, value: entry.node))
            }
        }
        if let leaf { leftOut.append((leaf, path)) }
        for key in order { survey(values[key] ?? [], path.appending(key)) }
    }

    private mutating func column(_ found: [ColumnSurvey.Found], _ path: Path, _ survey: ColumnSurvey?) {
        guard let first = found.first else { return }
        guard let survey, columns.count < Self.maxColumns else { return leftOut.append((first.record, path)) }
        let gap = found.enumerated().first { $0.offset != $0.element.record }?.offset ?? found.count
        columns.append(
            Column(
                path: path, survey: survey, count: found.count, example: first.record,
                missing: gap < records.count ? gap : nil))
    }
}
