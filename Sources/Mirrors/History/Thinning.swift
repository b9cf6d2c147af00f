import LogStore

/// Versions that a table does not need which keeps the last row of each record: what is older than the last row, and between
/// the version that removed it and the newest.
struct Thinning {
    private var rows: [(key: String, seq: Int64)] = []
    private var others: [(key: String, seq: Int64)] = []

    /// Notes what a record's new versions are.
    ///
    /// - Parameter rowSeq: the newest of them that makes a row; nil where none does.
    mutating func note(_ key: String, rowSeq: Int64?, lastSeq: Int64) {
        if let rowSeq { rows.append((key, rowSeq)) }
        if rowSeq != lastSeq { others.append((key, lastSeq)) }
    }

    /// Removes them.
    func thin(_ mirror: ActiveMirror, _ writer: inout TableWriter) throws {
        for (versions, keepsTwo) in [(rows, false), (others, true)] {
            for some in versions.chunked(HistoryWriter.maxVersions) {
                let bytes = some.reduce(0) { $0 + $1.key.utf8.count + 16 }
                try writer.add(mirror.versions.thinStep(some, keepingTwo: keepsTwo), mirror, bytes: bytes)
            }
        }
    }
}

/// Of a record's new versions, those that `Thinning` would leave: they alone are stored. Holds three of them, each of which may be as
/// large as a record that is kept.
struct NeededVersions {
    private(set) var versions: [MirrorVersionRecord] = []

    /// Takes the next version.
    mutating func take(_ version: MirrorVersionRecord, makesRow: Bool) {
        if makesRow { versions.removeAll() }
        if versions.count == 3 { versions.removeLast() }
        versions.append(version)
    }
}
