public import Postgres
public import Runtime

/// What a connection that listens hears of.
public enum Announcement: Sendable, Equatable {
    /// A namespace's log reaches to that entry.
    case commit(namespace: Int64, head: Int64)
    /// A gateway says something to the others.
    case message(PeerMessage)
    /// Mirrors were made, changed or removed.
    case mirrors
    /// Feeds were made, changed or removed, or somebody has stopped working some.
    case feeds
    /// Databases were added or changed, or namespaces placed.
    case placement

    /// What a notification says; nil where it is none of ours.
    public init?(channel: String, payload: String) {
        switch channel {
        case LogConnection.channel:
            let parts = payload.split(separator: " ")
            guard parts.count == 2, let id = Int64(parts[0]), let head = Int64(parts[1]) else { return nil }
            self = .commit(namespace: id, head: head)
        case LogConnection.peerChannel:
            guard let message = PeerMessage(payload: payload) else { return nil }
            self = .message(message)
        case LogConnection.mirrorChannel: self = .mirrors
        case LogConnection.feedChannel: self = .feeds
        case LogConnection.placementChannel: self = .placement
        default: return nil
        }
    }

    /// Which kind it is of.
    public var kind: Kind {
        switch self {
        case .commit: .commits
        case .message: .messages
        case .mirrors: .mirrors
        case .feeds: .feeds
        case .placement: .placement
        }
    }

    /// Kinds of announcements that a connection may listen to.
    public enum Kind: Sendable, CaseIterable {
        case commits, messages, mirrors, feeds, placement

        var channel: String {
            switch self {
            case .commits: LogConnection.channel
            case .messages: LogConnection.peerChannel
            case .mirrors: LogConnection.mirrorChannel
            case .feeds: LogConnection.feedChannel
            case .placement: LogConnection.placementChannel
            }
        }
    }
}

extension LogConnection {
    private enum SQL {
        static let announce = PostgresStatement(
            "announce",
            """
            with patience as materialized (select set_config('lock_timeout', '500', true))
            select pg_notify('\(LogConnection.channel)', news) from patience, unnest($1) as news
            """, types: [.textArray])
    }

    /// Tells everybody who listens how far the logs of namespaces reach.
    ///
    /// In a transaction of its own, that waits for no disk: PostgreSQL lets one transaction at a time commit that announces something,
    /// in all of its databases. Fails where another one is in the way for half a second, as whoever announces hears nothing meanwhile.
    public func announce(_ heads: [Int64: Int64]) throws(LogStoreError) {
        var news = PostgresArray(of: .text)
        for (namespace, head) in heads { news.appendText("\(namespace) \(head)") }
        var parameters = PostgresParameters()
        parameters.append(news)
        try translated { () throws(PostgresError) in _ = try postgres.executePrepared(SQL.announce, parameters) }
    }

    /// From now on `waitForAnnouncements` hears of these.
    public func listen(to kinds: [Announcement.Kind]) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            try postgres.executeScript(kinds.map { "listen \($0.channel)" }.joined(separator: "; "))
        }
    }

    /// Waits until something is announced that this connection listens to, for so long or until woken. Commits that it has announced
    /// itself are left out: whoever does so knows of them.
    public func waitForAnnouncements(
        milliseconds: Milliseconds, wake: WakeHandle?
    ) throws(LogStoreError) -> [Announcement] {
        let notifications = try translated { () throws(PostgresError) in
            try postgres.waitForNotifications(timeoutMilliseconds: milliseconds, wake: wake)
        }
        let others = notifications.filter { $0.senderPID != postgres.backendPID || $0.channel != Self.channel }
        return others.compactMap { Announcement(channel: $0.channel, payload: $0.payload) }
    }
}
