import Engine
import Feeds
import Follower
import Gateway
import HTTPServer
import Mirrors
import Runtime

/// Changes constants for tests, benchmarks and campaigns, by the environment variable `PATHMIRROR_TUNE=NAME=VALUE,…`.
///
/// The variable is no option: no help or page of the manual names it, and its names may change in any version (CONTRIBUTING.md).
struct Tuning {
    static let variable = "PATHMIRROR_TUNE"

    /// A constant that a name changes. The value is in milliseconds, in bytes, or a count.
    private struct Constant {
        let name: String
        let read: (String) -> Int?
        let form: String
        let least: Int
        let set: (inout ServiceOptions, Int) -> Void

        /// - Parameter least: 0 if that disables the function.
        static func duration(
            _ name: String, least: Int = 1, _ set: @escaping (inout ServiceOptions, Milliseconds) -> Void
        ) -> Constant {
            Constant(
                name: name, read: { TimeSpan.milliseconds($0).map { Int($0) } }, form: "a duration such as 15s",
                least: least, set: { set(&$0, Milliseconds($1)) })
        }

        static func size(_ name: String, _ set: @escaping (inout ServiceOptions, Int) -> Void) -> Constant {
            Constant(name: name, read: { ByteCount.parse($0) }, form: "a size such as 64MiB", least: 0, set: set)
        }

        static func count(
            _ name: String, least: Int = 0, _ set: @escaping (inout ServiceOptions, Int) -> Void
        ) -> Constant {
            Constant(name: name, read: { Int($0) }, form: "a whole number", least: least, set: set)
        }
    }

    private static var constants: [Constant] {
        [
            .size("answer-cache") { $0.gateway.answerCacheBytes = $1 },
            .duration("long-stretch", least: 0) {
                $0.server.longStallMilliseconds = $1
                $0.engine.longStallMilliseconds = $1
            },
            .count("workers", least: 1) { $0.gateway.workers = $1 },
            .count("max-streams") { $0.gateway.maxStreams = $1 },
            .count("max-sessions") { $0.gateway.maxSessions = $1 },
            .count("max-log-readers") { $0.gateway.maxLogReadings = $1 },
            .count("max-feed-waits") { $0.feeds.maxWaitingPulls = $1 },
            .duration("follow-rules-poll") { $0.follow.rulesPoll = $1 },
            .duration("follow-silence") { $0.follow.silence = $1 },
            .duration("follow-first-retry") { $0.follow.firstRetry = $1 },
            .duration("follow-longest-retry") { $0.follow.longestRetry = $1 },
            .duration("follow-shutdown-retry") { $0.follow.shutdownRetry = $1 },
            .duration("follow-violation-pause") { $0.follow.violationPause = $1 },
            .duration("follow-refusal-pause") { $0.follow.refusalPause = $1 },
            .duration("log-poll") { $0.gateway.logPollMilliseconds = $1 },
            .duration("header-timeout") { $0.server.headerTimeoutMilliseconds = $1 },
            .duration("body-timeout") { $0.server.bodyTimeoutMilliseconds = $1 },
            .duration("idle-timeout") { $0.server.idleTimeoutMilliseconds = $1 },
            .duration("write-stall") { $0.server.writeStallTimeoutMilliseconds = $1 },
            .duration("stream-keep-alive") { $0.gateway.streamKeepAliveMilliseconds = $1 },
            .duration("keep-alive-timeout") { $0.gateway.keepAliveTimeoutMilliseconds = $1 },
            .duration("transaction-slot", least: 0) { $0.gateway.transactionSlotMilliseconds = $1 },
            .duration("poll-interval") {
                $0.engine.pollMilliseconds = $1
                $0.mirrors.pollMilliseconds = $1
            },
            .duration("heartbeat") { $0.engine.heartbeatMilliseconds = $1 },
            .duration("feed-takeover") { $0.setFeedTakeover($1) },
        ]
    }

    /// The names that the variable accepts.
    static var names: [String] { constants.map(\.name) }

    /// Applies the variable; changes nothing if it is not set.
    static func apply(_ environment: Environment, to options: inout ServiceOptions) throws {
        guard let text = environment[variable], !text.isEmpty else { return }
        options.logger.warning(
            "constants were changed, which only tests should do", [("variable", variable), ("to", text)])
        for part in text.split(separator: ",") {
            let pair = part.split(separator: "=", maxSplits: 1).map(String.init)
            guard pair.count == 2, let constant = constants.first(where: { $0.name == pair[0] }) else {
                throw UsageError(
                    "\(variable): \"\(part)\" is not NAME=VALUE with one of \(names.joined(separator: ", ")).")
            }
            guard let value = constant.read(pair[1]), value >= constant.least else {
                throw UsageError("\(variable): \(constant.name) must be \(constant.form).")
            }
            constant.set(&options, value)
        }
    }
}
