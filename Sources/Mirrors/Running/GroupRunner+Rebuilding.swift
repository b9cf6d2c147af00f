import LogStore
import Postgres
import Runtime

/// Mirrors that are ahead of the log, or went on from entries that are not in it: the database failed over to a standby
/// that had not received everything, or a backup was restored, and their tables were in another one.
extension GroupRunner {
    /// Makes their tables anew, each beside the one that is there, and says so. True when there were any; those that can't be
    /// made anew now are tried again.
    func rebuild(_ work: inout MirrorWork) throws -> Bool {
        var isSomethingNew = false
        for (mirror, cursor, head) in work.takenBack where work.rebuildsNow(mirror.name) {
            if !work.hasRebuildFailed(mirror.name) { announce(mirror, cursor, head) }
            do {
                let outcome = try rebuild(mirror, cursor)
                work.rebuilt(mirror.name)
                isSomethingNew = true
                core.logger.notice(
                    "mirror made anew",
                    [
                        ("namespace", mirror.namespace), ("mirror", mirror.name), ("rows", "\(outcome.rows)"),
                        ("seq", "\(outcome.seq)"),
                    ] + (outcome.lost.isEmpty ? [] : [("lost", outcome.lost.joined(separator: " "))]))
            } catch {
                let error = MirrorError(error)
                guard !error.endsConnection, !core.stopsNow else { throw error }
                // Another command builds it, or an object of the database is in the way. The other mirrors follow the log meanwhile.
                guard work.rebuildFailed(mirror.name, "\(error)") else { continue }
                core.logger.warning(
                    "mirror can't be made anew now",
                    [("namespace", mirror.namespace), ("mirror", mirror.name), ("error", "\(error)")])
            }
        }
        return isSomethingNew
    }

    private func announce(_ mirror: CatalogMirror, _ cursor: MirrorCursor, _ head: Int64) {
        let source = cursor.definition.isHistory ? "the log" : "the tree"
        core.logger.error(
            "THE DATABASE HAS LOST ENTRIES that a mirror's table has: it is made anew from \(source)",
            [
                ("namespace", mirror.namespace), ("mirror", mirror.name), ("table", "\(cursor.seq)"),
                ("head", "\(head)"),
            ])
    }

    private func rebuild(_ mirror: CatalogMirror, _ cursor: MirrorCursor) throws -> MirrorBuilder.Outcome {
        let source = try core.source("mirror builder")
        defer { core.close(source) }
        let target = try core.target(group.target)
        defer { core.close(target) }
        if cursor.definition.keeps != nil {
            let builder = HistoryBuilder(
                source: source, target: target, mirror: mirror, definition: cursor.definition)
            builder.room = core.makeRoom()
            return try builder.run(follows: false)
        }
        let lookup = try core.source("mirror builder")
        defer { core.close(lookup) }
        let misfitWriter = try core.target(group.target)
        defer { core.close(misfitWriter) }
        return try MirrorBuilder(
            source: source, lookup: lookup, target: target, misfitWriter: misfitWriter, mirror: mirror,
            definition: cursor.definition
        ).run()
    }
}
