import Crypto
import LogStore
import Postgres
import Runtime
import Tree

/// Runs the mirrors of one namespace and target while it holds their lock, on a thread with a connection to each of the two
/// databases.
///
/// The connection that writes holds the lock, so a runner that loses the connection also loses the lock. The row locks of the
/// cursors, not this lock, keep rows and cursors consistent.
final class GroupRunner: Sendable {
    private struct News {
        /// The head that the supervisor has read last.
        var head: Int64 = 0
        /// The greatest head announced since the mirrors reached the end of the log. Every role that can connect can announce a
        /// head, so an announcement only causes a check.
        var announcedHead: Int64 = 0
        var mirrors: [CatalogMirror]
        var mirrorsVersion = 1
        var stops = false
    }

    let core: MirrorCore
    let group: MirrorGroup
    private let news: Condition<News>

    init(_ core: MirrorCore, _ group: MirrorGroup, _ mirrors: [CatalogMirror]) {
        self.core = core
        self.group = group
        news = Condition(News(mirrors: mirrors))
    }

    func headSeen(_ head: Int64) { news.signal { $0.head = max($0.head, head) } }

    /// Handles a notification that the log reaches to `head`.
    func headAnnounced(_ head: Int64) { news.signal { $0.announcedHead = max($0.announcedHead, head) } }

    func mirrorsSeen(_ mirrors: [CatalogMirror]) {
        news.signal { news in
            let isSame =
                news.mirrors.count == mirrors.count
                && zip(news.mirrors, mirrors).allSatisfy { $0.id == $1.id && $0.revision == $1.revision }
            guard !isSame else { return }
            news.mirrors = mirrors
            news.mirrorsVersion += 1
        }
    }

    func stop() { news.broadcast { $0.stops = true } }

    private var stopsNow: Bool { core.stopsNow || news.withLock { $0.stops } }

    func run() {
        var backoff = Backoff(
            firstMilliseconds: core.settings.firstRetryMilliseconds,
            longestMilliseconds: core.settings.maxRetryMilliseconds)
        while !stopsNow {
            var hasWorked = false
            do {
                let source = try core.source("mirror reader")
                defer { core.close(source) }
                let target = try core.target(group.target)
                defer { core.close(target) }
                source.statementTimeoutMilliseconds = MirrorCore.silenceMilliseconds
                target.statementTimeoutMilliseconds = MirrorCore.silenceMilliseconds
                var work = MirrorWork(core, group, source, target)
                try takeLock(source, target, &work)
                hasWorked = true
                try follow(&work)
            } catch {
                guard !stopsNow else { return }
                let error = MirrorError(error)
                if hasWorked { backoff.reset() }
                let pause = backoff.nextMilliseconds()
                report(failure: "\(error)")
                store(failure: "\(error)", retryAfter: pause)
                core.logger.warning(
                    "mirrors stopped", [("namespace", group.namespace), ("error", "\(error)")])
                wait(milliseconds: pause)
            }
        }
    }

    private func wait(milliseconds: Milliseconds) {
        _ = news.wait(milliseconds: milliseconds) { $0.stops || core.stopsNow ? true : nil }
    }

    private func report(failure: String) {
        let mirrors = news.withLock { $0.mirrors }
        core.board.set(
            group.description,
            mirrors.map { mirror in
                var report = MirrorReport(namespace: mirror.namespace, name: mirror.name, state: .broken)
                report.message = failure
                return report
            })
    }

    /// Reports the target's failure in the gateways' database, if that can be reached. The report of a gateway that runs the
    /// mirrors takes precedence.
    private func store(failure: String, retryAfter pause: Int64) {
        guard group.target != nil, let source = try? core.source("mirror report") else { return }
        defer { core.close(source) }
        for mirror in news.withLock({ $0.mirrors }) {
            try? source.reportMirrorOutOfReach(
                mirror.namespaceID, mirror.id, message: failure, gateway: core.settings.gateway,
                retryMilliseconds: pause)
        }
    }

    /// Waits until no other gateway runs these mirrors, and acquires their lock.
    private func takeLock(_ source: LogConnection, _ target: PostgresConnection, _ work: inout MirrorWork) throws {
        var name = "pathmirror mirrors \(try source.installation()) \(group.namespaceID)"
        // The target may be the gateway's own database by another address. Its URL is hashed, because it may contain a
        // password.
        if let target = group.target { name += " " + Hex.encode(Digest.sha256(Array(target.utf8))) }
        while !stopsNow {
            let isHeld = try target.execute(
                "select pg_try_advisory_lock(hashtextextended($1, 0))", [.text(name)]
            ).bool(0, 0)
            if isHeld { return }
            let mirrors = news.withLock { $0.mirrors }
            core.board.set(
                group.description,
                mirrors.map { MirrorReport(namespace: $0.namespace, name: $0.name, state: .elsewhere) })
            wait(milliseconds: core.settings.takeoverMilliseconds + Int64.random(in: 0...200))
        }
    }

    private func follow(_ work: inout MirrorWork) throws {
        var seenVersion = 0
        while !stopsNow {
            let (mirrors, version, head, announced) = news.withLock {
                ($0.mirrors, $0.mirrorsVersion, $0.head, $0.announcedHead)
            }
            if version != seenVersion || work.needsReload {
                try work.load(mirrors)
                seenVersion = version
                if try rebuild(&work) { work.loadAgain() }
                guard !work.needsReload else { continue }
            }
            let isDone = try work.step(max(head, announced))
            try work.tryWaiting()
            try work.report(head: head)
            guard isDone else { continue }
            let position = work.position
            let until = work.millisecondsToRetry
            _ = news.wait(milliseconds: min(core.settings.pollMilliseconds, until)) { news -> Bool? in
                // The last step has already handled this announcement.
                if news.announcedHead == announced { news.announcedHead = 0 }
                return max(news.head, news.announcedHead) > position || news.mirrorsVersion != version || news.stops
                    || core.stopsNow ? true : nil
            }
            work.waited()
        }
    }
}

/// Mirrors that are ahead of the log, or have continued from entries that are not in it: the database failed over to a standby
/// that had not received everything, or a backup was restored, while the mirrors' tables are in another database.
extension GroupRunner {
    /// Rebuilds the tables of such mirrors, each beside the present one, and logs this. Returns true if any table was rebuilt.
    /// Tables that can't be rebuilt now are tried again.
    func rebuild(_ work: inout MirrorWork) throws -> Bool {
        var isSomethingNew = false
        for (mirror, cursor, head) in work.rolledBack where work.rebuildsNow(mirror.name) {
            if !work.hasRebuildFailed(mirror.name) { announce(mirror, cursor, head) }
            do {
                let outcome = try rebuild(mirror, cursor)
                work.rebuilt(mirror.name)
                isSomethingNew = true
                core.logger.notice(
                    "mirror rebuilt",
                    [
                        ("namespace", mirror.namespace), ("mirror", mirror.name), ("rows", "\(outcome.rows)"),
                        ("seq", "\(outcome.seq)"),
                    ] + (outcome.lost.isEmpty ? [] : [("lost", outcome.lost.joined(separator: " "))]))
            } catch {
                let error = MirrorError(error)
                guard !error.endsConnection, !core.stopsNow else { throw error }
                // Another command is building the mirror, or an object in the database prevents it. The other mirrors follow the log
                // meanwhile.
                guard work.rebuildFailed(mirror.name, "\(error)") else { continue }
                core.logger.warning(
                    "mirror can't be rebuilt now",
                    [("namespace", mirror.namespace), ("mirror", mirror.name), ("error", "\(error)")])
            }
        }
        return isSomethingNew
    }

    private func announce(_ mirror: CatalogMirror, _ cursor: MirrorCursor, _ head: Int64) {
        let source = cursor.definition.isHistory ? "the log" : "the tree"
        core.logger.error(
            "THE DATABASE HAS LOST ENTRIES that a mirror's table has: the table is rebuilt from \(source)",
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
        let errorWriter = try core.target(group.target)
        defer { core.close(errorWriter) }
        return try MirrorBuilder(
            source: source, lookup: lookup, target: target, errorWriter: errorWriter, mirror: mirror,
            definition: cursor.definition
        ).run()
    }
}
