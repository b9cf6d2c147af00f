public import LogStore
import Tree

/// A mirror that the data suggest: a definition, and the evidence for it.
public struct Inference: Sendable {
    public struct Evidence: Sendable {
        public let column: String
        public let type: ColumnType
        public let path: String
        /// The number of records with a value at `path`.
        public let present: Int
        /// The number of these values that would be errors if the definition were applied.
        public let conversionErrors: Int
        /// The path of the first value.
        public let example: String
        /// The first path without a value, or nil if all records have one.
        public let missing: String?
        /// The first paths whose values can't be converted.
        public let conversionErrorExamples: [String]
        /// More specific types that could hold every present value, too.
        public let alternatives: [ColumnType]
        /// A more specific type that could hold nearly every value.
        public let nearly: Nearly?
        /// Whether at least nine of ten numbers look like seconds since 1970, which no column type converts to times.
        public let looksLikeSeconds: Bool
    }

    /// A type that could hold nearly every value of a column.
    public struct Nearly: Sendable {
        public let type: ColumnType
        /// The number of records whose value it could not hold, and the first paths of such values.
        public let conversionErrors: Int
        public let conversionErrorExamples: [String]
    }

    /// The part of the data that is examined next.
    public enum Stage: Sendable {
        /// A path that is no collection, or that contains collections.
        case path(String)
        /// The records of one table.
        case records(table: String, count: Int)
        /// Records that can't be mirrored, because a key above them contains braces.
        case leftOut(String)
    }

    public private(set) var definition: MirrorDefinition
    public let evidence: [Evidence]
    public let recordCount: Int
    /// The path of the first record.
    public let example: String
    /// Paths within records without a column, each in one record with a value there. The rest column, if there is one, holds
    /// these values.
    public let pathsLeftOut: [String]

    /// Reads the data at a path and proposes mirrors: for a pattern, of its records; for a path without captures, of its
    /// children or of the collections in them; for `/`, of the whole namespace. Collections within records get mirrors of their
    /// own, with the records' keys. Memory holds the data at the path.
    ///
    /// - Parameters:
    ///   - limit: the maximum number of records of a mirror that are examined.
    ///   - progress: called when a stage begins. An error that it throws ends the work.
    public static func run(
        _ source: LogConnection, _ namespace: NamespaceRecord, pattern text: String, limit: Int,
        progress: @escaping (Stage) throws -> Void = { _ in }
    ) throws -> [Inference] {
        let pattern = try pattern(text)
        guard try source.beginSnapshot(namespace.id) != nil else {
            throw LogStoreError.unknownNamespace(namespace.name)
        }
        defer { source.endSnapshot() }
        let base = pattern?.base ?? .root
        let node = try source.readSubtrees(namespace.id, [base]).first?.value ?? .null
        var stop: (any Error)?
        let known = try source.catalogMirrors().map {
            MirrorNames.Known(
                name: $0.name, table: $0.definition.table,
                sharesSchema: $0.target == nil && $0.definition.schema == MirrorDefinition.defaultSchema,
                isOfNamespace: $0.namespaceID == namespace.id, pattern: $0.definition.pattern)
        }
        var inference = TreeInference(limit: limit, besides: known) { stage in
            guard stop == nil else { return false }
            do { try progress(stage) } catch { stop = error }
            return stop == nil
        }
        if let pattern, pattern.captures.isEmpty {
            inference.takeChildren(of: node, at: base)
        } else if let pattern {
            let records = records(of: pattern, in: node, limit: limit)
            if !records.values.isEmpty { inference.takeRecords(records, table: table(pattern)) }
        } else {
            inference.takeWhole(node)
        }
        if let stop { throw stop }
        guard !inference.proposals.isEmpty else {
            throw MirrorError.refused(
                "There is no record at \(text) to infer columns from\(inference.hasLeftOut ? ", except records that no mirror can store" : "")."
            )
        }
        return inference.proposals
    }

    /// Returns the proposal with the namespace in its definition.
    public func naming(_ namespace: String) -> Inference {
        var named = self
        named.definition.namespace = namespace
        return named
    }

    /// Returns the pattern of a path, or nil for the whole tree.
    private static func pattern(_ text: String) throws -> PathPattern? {
        let trimmed = text.hasSuffix("/") ? String(text.dropLast()) : text
        guard !trimmed.isEmpty else { return nil }
        do {
            return try PathPattern(trimmed)
        } catch {
            throw MirrorError.refused("Invalid path: \(error.reason).")
        }
    }

    /// Returns the records of a pattern with captures.
    private static func records(of pattern: PathPattern, in base: Node, limit: Int) -> TreeInference.Records {
        var values: [(keys: [Key], value: Node)] = [([], base)]
        for part in pattern.parts.dropFirst(pattern.base.depth) {
            values = values.flatMap { above, value -> [(keys: [Key], value: Node)] in
                guard case .branch(let branch) = value else { return [] }
                switch part {
                case .key(let key): return branch.children[key].map { [(above, $0)] } ?? []
                case .capture: return branch.children.map { (above + [$0.key], $0.node) }
                }
            }
        }
        return TreeInference.Records(parts: pattern.parts, values: Array(values.prefix(limit)))
    }

    /// Returns a table's name, such as `room_messages` for `/rooms/{room}/messages/{message}`.
    private static func table(_ pattern: PathPattern) -> String {
        let keys = pattern.parts.compactMap { if case .key(let key) = $0 { key } else { nil } }
        guard let first = keys.first, let last = keys.last else { return "records" }
        let name = InferredNames.column([last])
        guard keys.count > 1, pattern.parts.count > pattern.base.depth + 1, pattern.captures.count > 1 else {
            return name.isEmpty ? "records" : name
        }
        return "\(InferredNames.singular(InferredNames.column([first])))_\(name)"
    }
}
