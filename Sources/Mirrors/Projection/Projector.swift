import Tree

/// A row for a mirror's table.
struct ProjectedRow: Sendable {
    let keys: [Key]
    /// One cell per column of the definition, and one for the rest if there is a column for it.
    var cells: [Cell]
    let stamp: Stamp
    /// Columns whose values could not be converted.
    var conversionErrors: [String] = []
}

/// The entry that a value comes from.
struct Stamp: Sendable, Equatable {
    let seq: Int64
    /// Milliseconds since 1970, or nil if the entry is no longer in the log.
    let committedAt: Int64?
}

/// The error of a value that could not be converted for its column, or of a record without a row.
struct ConversionError: Sendable, Equatable {
    /// The record's path.
    let record: String
    /// The column's name. Empty for the whole row.
    let column: String
    /// The value's path.
    let path: String
    let seq: Int64
    /// JSON, shortened if it is long. Nil if there is no value.
    let value: String?
    let reason: String
}

/// Converts records to rows.
struct Projector: Sendable {
    let definition: MirrorDefinition
    private let columns: [ProjectedColumn]
    /// The keys of columns directly within the record, for a quick check whether anything is left for the rest.
    private let shallowKeys: Set<Key>
    private let hasDeepPaths: Bool

    /// The maximum size of a row's captured keys. Longer keys would not fit into an index.
    static let maxKeyBytes = 2_400
    private static let maxShownBytes = 4_096

    init(_ definition: MirrorDefinition) {
        self.definition = definition
        columns = definition.columns.map(ProjectedColumn.init)
        shallowKeys = Set(definition.columns.compactMap { $0.path.depth == 1 ? $0.path[0] : nil })
        hasDeepPaths = definition.columns.contains { $0.path.depth != 1 }
    }

    /// Returns the record's row, or nil if it has none. Conversion errors are added to `conversionErrors`.
    func row(_ record: Node, keys: [Key], stamp: Stamp, conversionErrors: inout [ConversionError]) -> ProjectedRow? {
        if record.isNull { return nil }
        if let filter = definition.filter, !filter.admits(record, keys: keys) { return nil }
        guard check(keys, record, stamp, &conversionErrors) else { return nil }
        var row = ProjectedRow(keys: keys, cells: [], stamp: stamp)
        row.cells.reserveCapacity(definition.columns.count + 1)
        var isWanted = true
        var cut: Set<String> = []
        for projected in columns {
            let value = projected.value(in: record)
            var outcome = Conversion.convert(value, to: projected.type)
            var isMissing = value.isNull
            if case .conversionError = outcome, projected.type == .jsonb, let storable = StorableJSON(value) {
                conversionErrors.append(cutError(projected.column.name, projected.column.path, storable, keys, stamp))
                row.conversionErrors.append(projected.column.name)
                cut.insert(projected.column.name)
                outcome = .cell(storable.cell)
            } else if case .conversionError(let reason) = outcome {
                conversionErrors.append(conversionError(projected.column, value, keys, stamp, reason))
                row.conversionErrors.append(projected.column.name)
                outcome = .cell(.null)
                isMissing = projected.notNull != nil
            }
            if isMissing, projected.hasDefault {
                outcome = Conversion.convert(projected.column.defaultValue, to: projected.type)
            } else if isMissing, projected.notNull != nil {
                isWanted = false
                if projected.notNull == .error, value.isNull {
                    conversionErrors.append(
                        conversionError(projected.column, value, keys, stamp, "a required value is missing"))
                }
            }
            if case .cell(let cell) = outcome { row.cells.append(cell) } else { row.cells.append(.null) }
        }
        if let rest = definition.rest { addRest(rest, record, cut, &row, &conversionErrors) }
        return isWanted ? row : nil
    }

    /// Whether a row can have these keys.
    func holds(_ keys: [Key]) -> Bool {
        keys.reduce(0) { $0 + $1.byteCount } <= Self.maxKeyBytes
            && zip(keys, definition.keys).allSatisfy { $1.type.holds($0) }
    }

    private func check(_ keys: [Key], _ record: Node, _ stamp: Stamp, _ conversionErrors: inout [ConversionError])
        -> Bool
    {
        let size = keys.reduce(0) { $0 + $1.byteCount }
        var reason: String?
        if size > Self.maxKeyBytes {
            reason = "the captured keys have \(size) bytes together; a row's key has at most \(Self.maxKeyBytes)"
        }
        for (key, column) in zip(keys, definition.keys) where reason == nil && !column.type.holds(key) {
            reason = "the key \(column.name) is not a \(column.type.rawValue) as PostgreSQL writes it"
        }
        guard let reason else { return true }
        let path = definition.pattern.path(of: keys).description
        conversionErrors.append(
            ConversionError(
                record: path, column: "", path: path, seq: stamp.seq, value: Self.shown(record), reason: reason))
        return false
    }

    private func conversionError(
        _ column: MirrorDefinition.Column, _ value: Node, _ keys: [Key], _ stamp: Stamp, _ reason: String
    ) -> ConversionError {
        let record = definition.pattern.path(of: keys)
        return ConversionError(
            record: record.description, column: column.name, path: record.appending(column.path).description,
            seq: stamp.seq, value: value.isNull ? nil : Self.shown(value), reason: reason)
    }

    /// Reports values in an object that `jsonb` can't hold. A column of a record has one error, with the path of the first
    /// value.
    private func cutError(
        _ column: String, _ path: Path, _ storable: StorableJSON, _ keys: [Key], _ stamp: Stamp
    ) -> ConversionError {
        let record = definition.pattern.path(of: keys)
        let others = storable.leftOut.count - 1
        let more = others == 0 ? "" : ", and so do \(others) more in the value"
        return ConversionError(
            record: record.description, column: column,
            path: record.appending(path).appending(storable.leftOut[0].path).description, seq: stamp.seq,
            value: Self.shown(storable.leftOut[0].value),
            reason: "the text holds U+0000, which jsonb can't store\(more): left out")
    }

    /// Adds the values without a column, and those that their columns could not hold.
    ///
    /// - Parameter cut: columns that hold their values without some parts, which are in the columns' errors.
    private func addRest(
        _ rest: MirrorDefinition.Rest, _ record: Node, _ cut: Set<String>, _ row: inout ProjectedRow,
        _ conversionErrors: inout [ConversionError]
    ) {
        var left = record
        if case .branch(let branch) = record, !hasDeepPaths, row.conversionErrors.isEmpty,
            branch.children.allSatisfy({ shallowKeys.contains($0.key) })
        {
            left = .null
        } else {
            for column in definition.columns
            where !row.conversionErrors.contains(column.name) || cut.contains(column.name) {
                left = left.replacing(column.path, with: .null)
            }
        }
        if left.isNull { return row.cells.append(.null) }
        switch Conversion.convert(left, to: .jsonb) {
        case .cell(let cell): row.cells.append(cell)
        case .conversionError(let reason):
            row.conversionErrors.append(rest.name)
            if let storable = StorableJSON(left) {
                conversionErrors.append(cutError(rest.name, .root, storable, row.keys, row.stamp))
                return row.cells.append(storable.cell)
            }
            let path = definition.pattern.path(of: row.keys).description
            conversionErrors.append(
                ConversionError(
                    record: path, column: rest.name, path: path, seq: row.stamp.seq, value: Self.shown(left),
                    reason: reason))
            row.cells.append(.null)
        }
    }

    /// Returns the value as JSON that PostgreSQL's text can hold (U+0000 is escaped), shortened if it is long.
    static func shown(_ value: Node) -> String {
        let bytes = JSONWriter.encode(value, form: .export)
        guard bytes.count > maxShownBytes else { return String(decoding: bytes, as: UTF8.self) }
        var end = maxShownBytes
        while bytes[end] & 0xC0 == 0x80 { end -= 1 }
        return String(decoding: bytes[..<end], as: UTF8.self) + "…"
    }
}

/// A column prepared for many records. A class, because copying a definition's column costs more than converting a value.
private final class ProjectedColumn: Sendable {
    let column: MirrorDefinition.Column
    let type: ColumnType
    let notNull: MirrorDefinition.NotNull?
    let hasDefault: Bool
    /// The value's key, if the value is a child of the record.
    private let key: Key?
    private let isPriority: Bool

    init(_ column: MirrorDefinition.Column) {
        self.column = column
        type = column.type
        notNull = column.notNull
        hasDefault = !column.defaultValue.isNull
        key = column.path.depth == 1 ? column.path[0] : nil
        isPriority = key == .priority
    }

    func value(in record: Node) -> Node {
        guard let key else { return record[column.path] }
        return isPriority ? record.priority : record.child(key)
    }
}
