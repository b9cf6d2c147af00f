import Tree

/// Finds the collections of records in a tree, and proposes a mirror for each. Pure: the tree is in memory.
struct TreeInference {
    /// The maximum number of records of one mirror that are examined.
    let limit: Int
    private(set) var proposals: [Inference] = []
    private var names: MirrorNames
    /// Whether some records can't be mirrored.
    private(set) var hasLeftOut = false
    /// The collections whose keys identify the children of others: `room` for the keys of `/rooms`.
    private var known = KnownCollections()

    private static let maxDepth = 16

    /// Called with the stage that begins next. If it returns false, that stage and all later ones are skipped.
    private let shouldContinue: (Inference.Stage) -> Bool

    /// - Parameter mirrors: existing mirrors, whose names and tables are taken.
    init(
        limit: Int, besides mirrors: [MirrorNames.Known] = [],
        shouldContinue: @escaping (Inference.Stage) -> Bool = { _ in true }
    ) {
        self.limit = limit
        names = MirrorNames(besides: mirrors)
        self.shouldContinue = shouldContinue
    }

    /// The path parts and the values of records.
    struct Records {
        var parts: [PathPattern.Part]
        var values: [(keys: [Key], value: Node)]

        /// The literal keys after the last capture, or of the whole path if there is no capture.
        var lastName: [Key] {
            let last = parts.lastIndex { if case .capture = $0 { true } else { false } } ?? -1
            return parts[(last + 1)...].compactMap { if case .key(let key) = $0 { key } else { nil } }
        }
    }

    /// Proposes mirrors for everything below a path about which nothing is known.
    mutating func takeWhole(_ node: Node, at path: [Key] = []) {
        guard case .branch(let branch) = node, path.count < Self.maxDepth,
            shouldContinue(.path(path.last.map { "/\($0.text)" } ?? "/"))
        else { return }
        if path.isEmpty { known = KnownCollections(in: node) }
        if !path.isEmpty, case .collection(let keys) = Shape([node], among: known) {
            return takeChildren(Records(parts: path.map { .key($0) }, values: [([], node)]), keys, under: nil)
        }
        for entry in branch.children { takeWhole(entry.node, at: path + [entry.key]) }
    }

    /// Proposes mirrors for the children of one path, which according to the caller are records or contain some.
    mutating func takeChildren(of node: Node, at path: Path) {
        var keys = Shape.Keys.other
        if case .collection(let found) = Shape([node]) { keys = found }
        takeChildren(Records(parts: path.keys.map { .key($0) }, values: [([], node)]), keys, under: nil)
    }

    /// - Parameters:
    ///   - containers: the values whose children are the records, or contain them.
    ///   - parent: the table of the records of which these are parts.
    ///   - named: the name of the records, if it differs from that of the last key.
    private mutating func takeChildren(
        _ containers: Records, _ keys: Shape.Keys, under parent: String?, named: String? = nil
    ) {
        var found = containers
        found.values = []
        for (above, value) in containers.values {
            guard case .branch(let branch) = value else { continue }
            for entry in branch.children where found.values.count < limit {
                found.values.append((above + [entry.key], entry.node))
            }
        }
        guard !found.values.isEmpty else { return }
        let name = named ?? InferredNames.column(containers.lastName.suffix(1))
        let shape = Shape(found.values.lazy.map(\.value), among: known)
        if case .collection(let inner) = shape, found.parts.count < Self.maxDepth {
            // A collection with these keys names them, otherwise they have no name. The path's name belongs to the records.
            let outer = keys == .date ? "" : knownName(found.values) ?? "group"
            found.parts.append(.capture(capture(outer, keys, found.parts)))
            return takeChildren(found, inner, under: parent, named: name)
        }
        // Single values have no name of their own, and the parts of a record may have the keys of another collection, such as
        // users.
        let own = keys == .other && (shape == .leaf || parent != nil) ? knownName(found.values) ?? name : name
        found.parts.append(.capture(capture(own, keys, found.parts)))
        takeRecords(found, table: table(name, under: parent))
    }

    // MARK: Names

    private func knownName(_ values: [(keys: [Key], value: Node)]) -> String? {
        known.name(of: Set(values.lazy.compactMap(\.keys.last)))
    }

    private func capture(_ name: String, _ keys: Shape.Keys, _ parts: [PathPattern.Part]) -> String {
        var taken = Set(parts.compactMap { if case .capture(let name) = $0 { name } else { nil } })
        return InferredNames.unused(InferredNames.capture(of: name, keys), &taken)
    }

    private func table(_ name: String, under parent: String?) -> String {
        guard let parent else { return name.isEmpty ? "records" : name }
        return "\(InferredNames.singular(parent))_\(name)"
    }

    // MARK: Records

    /// Proposes mirrors for records and for the collections in them.
    mutating func takeRecords(_ records: Records, table wanted: String) {
        var name = wanted
        while name.utf8.count > 58 { name.removeLast() }
        guard let pattern = pattern(records.parts) else {
            hasLeftOut = true
            _ = shouldContinue(.leftOut(PathPattern.text(records.parts)))
            return
        }
        let table = names.unusedTable(name, pattern)
        guard shouldContinue(.records(table: table, count: records.values.count)) else { return }
        var fields = RecordFields(records.values.map(\.value), among: known)
        fields.survey()
        if let proposal = proposal(records, pattern, table, fields) { proposals.append(proposal) }
        for child in fields.collections {
            var containers = Records(parts: records.parts + child.path.keys.map { .key($0) }, values: [])
            containers.values = child.values.map { (records.values[$0.record].keys, $0.value) }
            takeChildren(containers, child.keys, under: table)
        }
    }

    /// Returns nil if a key contains braces, which a pattern can't express, or if the pattern would be too long.
    private func pattern(_ parts: [PathPattern.Part]) -> PathPattern? {
        guard let pattern = try? PathPattern(PathPattern.text(parts)), pattern.parts == parts else { return nil }
        return pattern
    }

    /// Returns nil for records that only contain others, and for records without a column.
    private mutating func proposal(
        _ records: Records, _ pattern: PathPattern, _ table: String, _ fields: RecordFields
    ) -> Inference? {
        let isNothing = fields.columns.isEmpty && records.values.allSatisfy { !$0.value.isBranch }
        guard !fields.columns.isEmpty || fields.collections.isEmpty, !isNothing else { return nil }
        let mirror = self.names.unusedMirror(InferredNames.mirror(table), pattern)
        var taken = Set(pattern.captures)
        let names = InferredNames.columns(fields.columns.map(\.path), besides: &taken)
        var columns: [MirrorDefinition.Column] = []
        var evidence: [Inference.Evidence] = []
        let text = { (record: Int, path: Path) in
            pattern.path(of: records.values[record].keys).appending(path).description
        }
        for (field, name) in zip(fields.columns, names) {
            let survey = field.survey
            let isAlways = field.count == records.values.count && survey.conversionErrors.isEmpty
            columns.append(
                .init(
                    name: name, type: survey.type, path: field.path, defaultValue: .null,
                    notNull: isAlways && field.count >= Self.enoughForNotNull ? .error : nil, comment: nil))
            evidence.append(
                .init(
                    column: name, type: survey.type,
                    path: field.path.isRoot ? "." : String(field.path.description.unicodeScalars.dropFirst()),
                    present: field.count, conversionErrors: survey.conversionErrors.count,
                    example: text(field.example, field.path),
                    missing: field.missing.map { text($0, field.path) },
                    conversionErrorExamples: survey.conversionErrors.prefix(3).map { text($0, field.path) },
                    alternatives: survey.alternatives,
                    nearly: survey.nearly.map { nearly in
                        .init(
                            type: nearly.type, conversionErrors: nearly.conversionErrors.count,
                            conversionErrorExamples: nearly.conversionErrors.prefix(3).map { text($0, field.path) })
                    },
                    looksLikeSeconds: survey.areSeconds))
        }
        // Values of child records must not be repeated in the parent's row.
        let rest = fields.collections.isEmpty ? InferredNames.unused("rest", &taken) : nil
        let definition = MirrorDefinition(
            name: mirror, namespace: nil, pattern: pattern, filter: nil,
            schema: MirrorDefinition.defaultSchema, table: table,
            target: nil, comment: nil, keys: keyColumns(pattern, records), columns: columns,
            rest: rest.map { .init(name: $0, comment: nil) }, indexes: [],
            keptErrors: MirrorDefinition.defaultKeptErrors)
        return Inference(
            definition: definition, evidence: evidence, recordCount: records.values.count,
            example: text(0, .root), pathsLeftOut: fields.leftOut.map { text($0.record, $0.path) })
    }

    /// With at least this many records, a value that all of them have is expected in every record.
    private static let enoughForNotNull = 20

    /// Returns the key columns with the narrowest types that hold all present keys.
    private func keyColumns(_ pattern: PathPattern, _ records: Records) -> [MirrorDefinition.KeyColumn] {
        pattern.captures.enumerated().map { index, name in
            let type = [KeyType.bigint, .uuid, .date].first { type in
                records.values.allSatisfy { type.holds($0.keys[index]) }
            }
            return .init(name: name, type: type ?? .text, comment: nil)
        }
    }
}

extension PathPattern {
    fileprivate static func text(_ parts: [Part]) -> String {
        parts.map { part in
            switch part {
            case .key(let key): "/\(key.text)"
            case .capture(let name): "/{\(name)}"
            }
        }.joined()
    }
}

/// The independent collections of a namespace. Their keys identify other paths: a map whose keys are those of `/users` is a map
/// of users, however small it is.
struct KnownCollections {
    private var collections: [(name: String, keys: Set<Key>)] = []

    private static let maxDepth = 4
    /// The share of a map's keys that a collection must contain. Votes of a removed user may still exist.
    private static let most = 0.8

    /// Creates an instance without collections.
    init() {}

    /// Finds the collections in a whole tree.
    init(in root: Node) { collect(root, nil, 0) }

    private mutating func collect(_ node: Node, _ key: Key?, _ depth: Int) {
        guard case .branch(let branch) = node, depth <= Self.maxDepth else { return }
        if let key, case .collection(let keys) = Shape([node]) {
            // Indices and days as keys say nothing about other paths with the same keys.
            guard keys == .other, branch.children.count > 1, Shape(branch.children.lazy.map(\.node)) == .record else {
                return
            }
            let name = InferredNames.singular(InferredNames.column([key]))
            collections.append((name, Set(branch.children.lazy.map(\.key))))
            return
        }
        for entry in branch.children { collect(entry.node, entry.key, depth + 1) }
    }

    /// Returns the singular name of the collection with these keys, such as `user`.
    func name(of keys: Set<Key>) -> String? {
        guard !keys.isEmpty else { return nil }
        if let all = collections.first(where: { keys.isSubset(of: $0.keys) }) { return all.name }
        return collections.first { known in
            Double(keys.count { known.keys.contains($0) }) >= Self.most * Double(keys.count)
        }?.name
    }
}
