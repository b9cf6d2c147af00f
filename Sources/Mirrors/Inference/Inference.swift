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
        /// Of those, the ones whose value would be an error if the definition was applied.
        public let misfits: Int
        /// The first place that has a value.
        public let example: String
        /// The first place that has none; nil where all have one.
        public let missing: String?
        /// The first places whose values would not fit.
        public let misfitExamples: [String]
        /// Types that would take every value there is, too, and say more.
        public let alternatives: [ColumnType]
        /// The type that would take nearly every value, and say more.
        public let nearly: Nearly?
        /// Whether nine of ten numbers, or more, look like seconds since 1970, of which no type makes moments.
        public let looksLikeSeconds: Bool
    }

    /// A type that would take nearly every value of a column.
    public struct Nearly: Sendable {
        public let type: ColumnType
        /// Records whose value it would not take, and the first places of such values.
        public let misfits: Int
        public let misfitExamples: [String]
    }

    /// What is looked at next.
    public enum Stage: Sendable {
        /// A place that is no collection, or holds some.
        case place(String)
        /// The records of one table.
        case records(table: String, count: Int)
        /// Records that no mirror can have, as a key above them has braces.
        case leftOut(String)
    }

    public let definition: MirrorDefinition
    public let evidence: [Evidence]
    public let recordCount: Int
    /// The place of the first record.
    public let example: String
    /// Places below records that became no column, each in one record that has it: what is there goes to the rest, where there is
    /// one.
    public let placesLeftOut: [String]

    /// Reads what is at a path and proposes mirrors: for a pattern, of its records; for a path without captures, of its
    /// children, or of what these hold; for `/`, of all that the namespace has. Collections within records have mirrors
    /// of their own, with the records' keys. Holds what is at the path in memory.
    ///
    /// - Parameters:
    ///   - limit: the most records of a mirror that are looked at.
    ///   - progress: is told what begins; what it throws ends the work.
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
                name: $0.name, table: $0.definition.table, isOfNamespace: $0.namespaceID == namespace.id,
                pattern: $0.definition.pattern)
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
                "There is no record at \(text) to infer columns from\(inference.hasLeftOut ? " but those that no mirror can have" : "")."
            )
        }
        return inference.proposals
    }

    /// Nil for the whole tree.
    private static func pattern(_ text: String) throws -> PathPattern? {
        let trimmed = text.hasSuffix("/") ? String(text.dropLast()) : text
        guard !trimmed.isEmpty else { return nil }
        do {
            return try PathPattern(trimmed)
        } catch {
            throw MirrorError.refused("No path: \(error.reason).")
        }
    }

    /// The records of a pattern with captures.
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

    /// `room_messages` for `/rooms/{room}/messages/{message}`.
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
