public import Postgres
public import Runtime

/// A notification that a listening connection receives.
public enum Announcement: Sendable, Equatable {
    /// The log of a namespace has reached `head`.
    case commit(namespace: Int64, head: Int64)
    /// A message from one gateway to the others.
    case message(PeerMessage)
    /// Mirrors were created, changed or removed.
    case mirrors
    /// Feeds were created, changed or removed, or a worker has released some.
    case feeds
    /// Databases were added or changed, or namespaces were placed.
    case placement

    /// Parses a notification. Returns nil for a notification that is not an announcement.
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

    /// The kind of the announcement.
    public var kind: Kind {
        switch self {
        case .commit: .commits
        case .message: .messages
        case .mirrors: .mirrors
        case .feeds: .feeds
        case .placement: .placement
        }
    }

    /// The kinds of announcements to which a connection can listen.
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

    /// Announces to all listeners how far the logs of namespaces reach.
    ///
    /// The announcement has its own transaction and waits for no disk, because PostgreSQL commits transactions that
    /// notify one at a time, across all databases of the server. Fails if another such transaction blocks it for half a
    /// second, because the caller receives no announcements while it waits.
    public func announce(_ heads: [Int64: Int64]) throws(LogStoreError) {
        var news = PostgresArray(of: .text)
        for (namespace, head) in heads { news.appendText("\(namespace) \(head)") }
        var parameters = PostgresParameters()
        parameters.append(news)
        try translated { () throws(PostgresError) in _ = try postgres.executePrepared(SQL.announce, parameters) }
    }

    /// Makes `waitForAnnouncements` receive announcements of these kinds from now on.
    public func listen(to kinds: [Announcement.Kind]) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            try postgres.executeScript(kinds.map { "listen \($0.channel)" }.joined(separator: "; "))
        }
    }

    /// Waits until an announcement arrives, the time has passed or `wake` is called. Leaves out commits that this
    /// connection announced itself.
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
