import Engine
import Feeds
import Gateway
import HTTPServer
import LogStore
import Mirrors
import Retention
import Runtime

extension ServiceOptions {
    /// The options shared by `dev` and `serve`, except those in files of their own.
    static let settings: [ServiceSetting] = [
        .number("loops", 1...256, "event loops (threads) for requests; default: one per core, at most 4") {
            $0.server.loops = $1
        },
        .number(
            "committers", 1...64,
            "threads that commit, each with a connection; half as many read the log, read for feeds, and (at least 2) load namespaces; default 4"
        ) {
            $0.engine.committers = $1
        },
        .number("max-connections", 1...10_000_000, "the most concurrent connections; default 50000") {
            $0.server.maxConnections = $1
        },
        .size(
            "stream-buffer", 1...(1 << 30),
            "the most bytes queued for a slow stream before its changes are conflated; default 1MiB"
        ) {
            $0.gateway.streamBufferBytes = $1
        },
        .duration(
            "session-timeout", 100...day,
            "the silence after which a realtime client counts as disconnected; default 60s"
        ) {
            $0.gateway.sessionTimeoutMilliseconds = $1
        },
        .text(
            "session-label", "HEX",
            "the first hex digits of realtime session ids, up to 8, by which a proxy can route to the gateway"
        ) { $0.gateway.sessionLabel = try sessionLabel($1) },
        .duration(
            "dead-after", 50...3_600_000,
            "the silence of a gateway after which others end its sessions, and, after a third of it (3s to 8s), take over its feeds; default 15s"
        ) {
            $0.engine.leaseExpiryMilliseconds = $1
        },
        .duration("commit-deadline", 1...day, "how long a write waits while the database is unreachable; default 10s") {
            $0.engine.commitDeadlineMilliseconds = $1
        },
        .text(
            "synchronous-commit", "LEVEL",
            "the synchronous_commit of PostgreSQL's writes: on, remote_apply, remote_write, local or off; default on"
        ) { $0.connection.synchronousCommit = try commitLevel($1) },
        .duration(
            "retention-interval", 0...day,
            "the interval of pruning by 'pathmirror retention set', 0s = never by this gateway; default 60s"
        ) {
            $0.retention.intervalMilliseconds = $1
        },
        .duration("shutdown-timeout", 0...3_600_000, "how long a shutdown waits for running requests; default 10s") {
            $0.shutdownMilliseconds = $1
        },
    ]

    /// A day, in milliseconds: the upper bound of all durations.
    private static let day: Milliseconds = 86_400_000

    /// Sets the values that are derived from other options.
    mutating func deriveSettings() {
        engine.logReaders = max(1, engine.committers / 2)
        engine.loaders = max(2, engine.committers / 2)
        feeds.readers = max(1, engine.committers / 2)
        gateway.workers = max(2, server.loops / 2)
        gateway.maxStreams = server.maxConnections
        // A polling client keeps no open connection.
        gateway.maxSessions = 2 * server.maxConnections
        // Each event loop has a cache, and no budget counts it.
        gateway.answerCacheBytes = min(32 << 20, gateway.memory.bytes / 32)
        // SDKs send data every 45 s, even if the session timeout is shorter.
        gateway.keepAliveTimeoutMilliseconds = max(120_000, 2 * gateway.sessionTimeoutMilliseconds)
        // `doctor` counts a gateway as silent after 30 s without a heartbeat.
        engine.heartbeatMilliseconds = min(3_000, engine.leaseExpiryMilliseconds / 5)
        // Gateways judge each other by their own settings. Within these bounds heartbeats are in time for all other gateways, including
        // those of the version that waits for 5 s.
        setFeedTakeover(min(8_000, max(3_000, engine.leaseExpiryMilliseconds / 3)))
    }

    /// Sets the time after which other gateways take over the feeds of a silent one, and the interval of heartbeats.
    mutating func setFeedTakeover(_ time: Milliseconds) {
        feeds.expiryMilliseconds = time
        feeds.heartbeatMilliseconds = max(100, time / 5)
    }

    private static func commitLevel(_ text: String) throws -> String {
        guard ["on", "remote_apply", "remote_write", "local", "off"].contains(text) else {
            throw UsageError("--synchronous-commit must be on, remote_apply, remote_write, local or off.")
        }
        return text
    }

    private static func sessionLabel(_ text: String) throws -> String {
        // Ids are hex digits, because they are written into a page (see GatewayLoop.longPoll).
        guard text.utf8.count <= 8, text.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
        else { throw UsageError("--session-label must be at most 8 hex digits (0 to 9, a to f).") }
        return text
    }
}

/// An option of `dev` and `serve`, and the setting that it changes.
struct ServiceSetting: Sendable {
    let specification: OptionSpecification
    /// Applies the option; changes nothing if it is not given.
    let take: @Sendable (ParsedArguments, inout ServiceOptions) throws -> Void

    /// A whole number.
    static func number<Value: BinaryInteger & SendableMetatype>(
        _ name: String, _ range: ClosedRange<Int>, _ help: String,
        _ set: @escaping @Sendable (inout ServiceOptions, Value) -> Void
    ) -> ServiceSetting {
        ServiceSetting(specification: OptionSpecification(name, "N", help)) { arguments, options in
            if let value = try arguments.integer(name, in: range) { set(&options, Value(value)) }
        }
    }

    /// A duration, in milliseconds.
    static func duration(
        _ name: String, _ range: ClosedRange<Milliseconds>, _ help: String,
        _ set: @escaping @Sendable (inout ServiceOptions, Milliseconds) -> Void
    ) -> ServiceSetting {
        ServiceSetting(specification: OptionSpecification(name, "TIME", help)) { arguments, options in
            if let value = try arguments.duration(name, in: range) { set(&options, value) }
        }
    }

    /// A size, in bytes.
    static func size(
        _ name: String, _ range: ClosedRange<Int>, _ help: String,
        _ set: @escaping @Sendable (inout ServiceOptions, Int) -> Void
    ) -> ServiceSetting {
        ServiceSetting(specification: OptionSpecification(name, "SIZE", help)) { arguments, options in
            if let value = try arguments.size(name, in: range) { set(&options, value) }
        }
    }

    /// A text; `set` rejects invalid ones.
    static func text(
        _ name: String, _ placeholder: String, _ help: String,
        _ set: @escaping @Sendable (inout ServiceOptions, String) throws -> Void
    ) -> ServiceSetting {
        ServiceSetting(specification: OptionSpecification(name, placeholder, help)) { arguments, options in
            if let text = arguments[name] { try set(&options, text) }
        }
    }
}
