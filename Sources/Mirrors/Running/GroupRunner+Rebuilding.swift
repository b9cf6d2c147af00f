import LogStore
import Postgres
import Runtime

/// Mirrors that are ahead of the log, or went on from entries that are not in it: the database failed over to a standby
/// that had not received everything, or a backup was restored, and their tables were in another one.
extension GroupRunner {
    /// Makes their tables anew from the tree, each beside the one that is there, and says so. True when there were any.
    func rebuild(_ lost: [(mirror: CatalogMirror, cursor: MirrorCursor, head: Int64)]) throws -> Bool {
        for (mirror, cursor, head) in lost {
            core.logger.error(
                "THE DATABASE HAS LOST ENTRIES that a mirror's table has: it is made anew from the tree",
                [
                    ("namespace", mirror.namespace), ("mirror", mirror.name), ("table", "\(cursor.seq)"),
                    ("head", "\(head)"),
                ])
            let outcome = try rebuild(mirror, cursor)
            core.logger.notice(
                "mirror made anew",
                [
                    ("namespace", mirror.namespace), ("mirror", mirror.name), ("rows", "\(outcome.rows)"),
                    ("seq", "\(outcome.seq)"),
                ] + (outcome.lost.isEmpty ? [] : [("lost", outcome.lost.joined(separator: " "))]))
        }
        return !lost.isEmpty
    }

    private func rebuild(_ mirror: CatalogMirror, _ cursor: MirrorCursor) throws -> MirrorBuilder.Outcome {
        let source = try core.source("mirror builder")
        defer { core.close(source) }
        let lookup = try core.source("mirror builder")
        defer { core.close(lookup) }
        let target = try core.target(group.target)
        defer { core.close(target) }
        let misfitWriter = try core.target(group.target)
        defer { core.close(misfitWriter) }
        return try MirrorBuilder(
            source: source, lookup: lookup, target: target, misfitWriter: misfitWriter, mirror: mirror,
            definition: cursor.definition
        ).run()
    }
}
