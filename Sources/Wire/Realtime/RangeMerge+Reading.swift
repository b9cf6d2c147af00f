import Tree

extension RangeMerge {
    /// Parses `{"s":…,"e":…,"m":…}` (reference: rtdb-protocol 3.7). The leaves may be in any order.
    ///
    /// - Parameter depth: the depth of the path to which the ranges are relative.
    init(_ fields: MessageFields, below depth: Int) throws(MessageError) {
        guard let data = fields["m"] else { throw MessageError(reason: "Invalid ranges: m is missing") }
        let range = RangeMerge(start: try Self.bound(fields["s"]), end: try Self.bound(fields["e"]), rows: [])
        let rows = try RangeReader.leaves(of: data, mostLevels: max(0, KeyRules.maxDepth - depth))
        self.init(
            start: range.start, end: range.end, rows: rows.filter { range.includes($0.path) },
            repeated: rows.filter { !range.includes($0.path) })
    }

    private static func bound(_ raw: RawJSON?) throws(MessageError) -> Path? {
        guard let raw, !raw.isNull else { return nil }
        guard let text = raw.string else { throw MessageError(reason: "Invalid ranges: s and e must be paths") }
        return try MessageValue.checked(Path(splitting: text))
    }
}
