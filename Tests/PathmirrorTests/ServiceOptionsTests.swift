import Engine
import Feeds
import Gateway
import Glibc
import HTTPServer
import LogStore
import Mirrors
import Retention
import Runtime
import Testing

@testable import pathmirror

/// Goal: each option of `dev` and `serve` sets what it says, within its bounds, wherever it is given.
@Suite struct ServiceOptionsTests {
    static let specification = CommandSpecification(
        "serve", "serves", options: ServiceOptions.options + [.init("config", "FILE", "a file")])

    /// The options as settings; the log goes to `log`.
    static func options(
        _ arguments: [String], _ environment: [String: String] = [:], log: ScratchFile? = nil
    ) throws -> ServiceOptions {
        let parsed = try ParsedArguments(arguments, specification, Environment(values: environment))
        return try ServiceOptions(parsed, logDescriptor: log?.descriptor ?? -1)
    }

    static func message(_ arguments: [String]) -> String? {
        do {
            _ = try options(arguments)
            return nil
        } catch {
            return (error as? UsageError)?.message
        }
    }

    /// An option that is a number.
    struct Number: Sendable, CustomTestStringConvertible {
        let name: String
        let range: ClosedRange<Int>
        /// What holds without the option.
        let standard: Int
        let read: @Sendable (ServiceOptions) -> Int
        /// Options that must be given with the least or the most.
        var besides: [String] = []
        var testDescription: String { name }

        init(
            _ name: String, _ range: ClosedRange<Int>, _ standard: Int, besides: [String] = [],
            _ read: @escaping @Sendable (ServiceOptions) -> Int
        ) {
            self.name = name
            self.range = range
            self.standard = standard
            self.besides = besides
            self.read = read
        }
    }

    static let day = 1...86_400_000

    static let numbers: [Number] = [
        .init("remember-writes-days", 1...3_650, 30) { Int($0.retention.rememberedWriteDays) },
        .init("retention-interval-ms", 0...86_400_000, 60_000) { Int($0.retention.intervalMilliseconds) },
        .init("loops", 1...256, min(4, Processors.count)) { $0.server.loops },
        .init("committers", 1...64, 4) { $0.engine.committers },
        .init("batch-wait-us", 0...1_000_000, 1_000) { Int($0.engine.batchWaitMicroseconds) },
        .init("batches-under-way", 1...8, 2) { $0.engine.batchesUnderWay },
        .init("joint-namespaces", 1...1_000, 64) { $0.engine.jointNamespaces },
        .init("joint-rows", 1...100_000, 1_000) { $0.engine.jointRows },
        .init("joint-lock-ms", 1...500, 10) { Int($0.engine.jointLockMilliseconds) },
        .init("joint-evaluation-us", 1...1_000_000, 5_000) { Int($0.engine.jointEvaluationMicroseconds) },
        .init("announce-ms", 0...1_000, 2) { Int($0.engine.announceMilliseconds) },
        .init("workers", 1...64, 2) { $0.gateway.workers },
        .init("max-connections", 1...10_000_000, 50_000) { $0.server.maxConnections },
        .init("max-streams", 0...10_000_000, 100_000) { $0.gateway.maxStreams },
        .init("max-log-readers", 0...1_000_000, 128) { $0.gateway.maxLogReadings },
        .init("log-reader-threads", 1...64, 2) { $0.engine.logReaders },
        .init("loaders", 1...64, 2) { $0.engine.loaders },
        .init("max-waiting-loads", 1...10_000_000, 10_000) { $0.engine.maxWaitingLoads },
        .init("log-poll-ms", 1...600_000, 20_000) { Int($0.gateway.logPollMilliseconds) },
        .init("feed-readers", 1...64, 2) { $0.feeds.readers },
        .init("feed-window", 100...10_000_000, 10_000) { $0.feeds.windowMessages },
        .init("feed-window-mib", 1...65_536, 64) { $0.feeds.windowBytes >> 20 },
        .init("max-feed-waits", 1...10_000_000, 20_000) { $0.feeds.maxWaitingPulls },
        .init("feed-takeover-ms", 1_000...3_600_000, 5_000) { Int($0.feeds.expiryMilliseconds) },
        .init("max-sessions", 0...10_000_000, 100_000) { $0.gateway.maxSessions },
        .init("header-timeout-ms", day, 15_000) { Int($0.server.headerTimeoutMilliseconds) },
        .init("body-timeout-ms", day, 15_000) { Int($0.server.bodyTimeoutMilliseconds) },
        .init("idle-timeout-ms", day, 75_000) { Int($0.server.idleTimeoutMilliseconds) },
        .init("write-stall-timeout-ms", day, 30_000) { Int($0.server.writeStallTimeoutMilliseconds) },
        .init("sse-keepalive-ms", day, 30_000) { Int($0.gateway.streamKeepAliveMilliseconds) },
        .init("sse-buffer-bytes", 1...(1 << 30), 1 << 20) { $0.gateway.streamBufferBytes },
        .init("session-timeout-ms", 100...86_400_000, 60_000) { Int($0.gateway.sessionTimeoutMilliseconds) },
        .init("keepalive-timeout-ms", 100...86_400_000, 120_000) { Int($0.gateway.keepAliveTimeoutMilliseconds) },
        .init("transaction-turn-ms", 0...60_000, 400) { Int($0.gateway.transactionSlotMilliseconds) },
        .init("heartbeat-ms", 10...3_600_000, 3_000, besides: ["--dead-after-ms", "86400000"]) {
            Int($0.engine.heartbeatMilliseconds)
        },
        .init("dead-after-ms", 11...86_400_000, 15_000, besides: ["--heartbeat-ms", "10"]) {
            Int($0.engine.leaseExpiryMilliseconds)
        },
        .init("max-resume-entries", 0...1_000_000_000, 100_000) { Int($0.gateway.maxResumeEntries) },
        .init("max-batch-writes", 1...100_000, 1_000) { $0.engine.maxBatchWrites },
        .init("max-waiting-writes", 1...10_000_000, 50_000) { $0.engine.maxWaitingWrites },
        .init("commit-deadline-ms", day, 10_000) { Int($0.engine.commitDeadlineMilliseconds) },
        .init("poll-ms", 10...60_000, 1_000) { Int($0.engine.pollMilliseconds) },
        .init("shutdown-ms", 0...3_600_000, 10_000) { Int($0.shutdownMilliseconds) },
        .init("answer-cache-bytes", 0...(1 << 40), 32 << 20) { $0.gateway.answerCacheBytes },
        .init("long-stretch-ms", 0...3_600_000, 100) { Int($0.engine.longStretchMilliseconds) },
        .init("max-body-bytes", 1...(1 << 30), 256 << 20) { $0.gateway.maxBodyBytes },
        .init("max-user-body-bytes", 1...(1 << 30), 16 << 20, besides: ["--max-body-bytes", "1073741824"]) {
            $0.gateway.maxPlainBodyBytes
        },
        .init("memory-bytes", (1 << 20)...(1 << 45), 1 << 30) { $0.gateway.memory.bytes },
        .init("memory-per-address-bytes", 65_536...(1 << 45), 256 << 20) { $0.gateway.memory.bytesPerAddress },
        .init("write-bytes-per-minute", 1...(1 << 50), -1) { $0.gateway.limits.writeBytesPerMinute ?? -1 },
        .init("max-connections-per-address", 0...10_000_000, 10_000) { $0.server.maxConnectionsPerAddress ?? 0 },
        .init("clock-skew-s", 0...3_600, 30) { Int($0.credentials.clockSkewSeconds) },
    ]

    /// Every number among the options is in the table above; a new one has to be added to it.
    @Test func theTableIsWhole() {
        let numbers = ServiceOptions.options.filter { $0.value == "N" }.map(\.name)
        #expect(Set(numbers) == Set(Self.numbers.map(\.name)).union(["hsts-max-age-s"]))
    }

    @Test(arguments: numbers) func numbersAndTheirBounds(_ number: Number) throws {
        #expect(number.read(try Self.options([])) == number.standard)
        for value in [number.range.lowerBound, number.range.upperBound] {
            let options = try Self.options(["--\(number.name)", "\(value)"] + number.besides)
            #expect(number.read(options) == value)
        }
    }

    @Test(arguments: numbers) func numbersOutOfBounds(_ number: Number) {
        // What is refused for another option's sake is looked at elsewhere.
        let least = number.name == "dead-after-ms" ? 0 : number.range.lowerBound - 1
        for text in ["\(least)", "\(number.range.upperBound + 1)", "", "x", "1.5", "1e3", "1 ", "99999999999999999999"]
        {
            let said = Self.message(["--\(number.name)", text] + number.besides)
            #expect(said?.hasPrefix("--\(number.name) must be a whole number from ") == true, "\(text)")
            #expect(said?.hasSuffix(" to \(number.range.upperBound).") == true, "\(text)")
        }
    }

    /// The command line before the environment before the file before the default, for every single one.
    @Test(arguments: numbers) func precedence(_ number: Number) throws {
        let folder = try ScratchFolder()
        let (least, most) = (number.range.lowerBound, number.range.upperBound)
        let middle = least + (most - least) / 2
        let file = try folder.file("c", "\(number.name) = \(least)\n")
        let arguments = ["--config", file] + number.besides
        #expect(number.read(try Self.options(arguments)) == least)
        let option = try #require(ServiceOptions.options.first { $0.name == number.name })
        let environment = [option.environmentName: "\(middle)"]
        #expect(number.read(try Self.options(arguments, environment)) == middle)
        #expect(number.read(try Self.options(arguments + ["--\(number.name)", "\(most)"], environment)) == most)
    }

    /// The default that the help tells is the one that holds.
    @Test(arguments: numbers) func theHelpIsRight(_ number: Number) throws {
        let help = try #require(ServiceOptions.options.first { $0.name == number.name }).help
        let told = help.components(after: "default ").flatMap { Int($0.prefix { $0.isNumber }) }
        guard let told else {
            // Those without a fixed one say so.
            #expect(["loops", "memory-per-address-bytes", "write-bytes-per-minute"].contains(number.name))
            return
        }
        #expect(told == number.standard)
    }

    // MARK: What several places need

    @Test func limitsReachTheServerToo() throws {
        let options = try Self.options([
            "--max-body-bytes", "5000", "--max-user-body-bytes", "4000", "--memory-bytes", "2000000",
            "--memory-per-address-bytes", "70000", "--long-stretch-ms", "7", "--poll-ms", "50",
        ])
        #expect(options.server.maxBodyBytes == 5_000)
        #expect(options.server.maxPlainBodyBytes == 4_000)
        #expect(options.gateway.maxMessageBytes == 4_000)
        #expect(options.server.memory.bytes == 2_000_000)
        #expect(options.server.memory === options.gateway.memory)
        #expect(Int(options.server.longStretchMilliseconds) == 7)
        #expect(Int(options.mirrors.pollMilliseconds) == 50)
    }

    @Test func usersBodiesAreNeverLargerThanAdministrators() throws {
        #expect(try Self.options(["--max-body-bytes", "1000"]).gateway.maxPlainBodyBytes == 1_000)
        #expect(try Self.options(["--max-body-bytes", "1000"]).server.maxPlainBodyBytes == 1_000)
        let both = try Self.options(["--max-body-bytes", "1000", "--max-user-body-bytes", "2000"])
        #expect(both.gateway.maxPlainBodyBytes == 1_000)
        // A realtime message has the bound that was asked for.
        #expect(both.gateway.maxMessageBytes == 2_000)
    }

    @Test func anAddressGetsAQuarterOfTheMemory() throws {
        #expect(try Self.options(["--memory-bytes", "4000000"]).gateway.memory.bytesPerAddress == 1_000_000)
    }

    @Test(arguments: [("3000", "3000", false), ("3000", "2999", false), ("3000", "3001", true), ("10", "11", true)])
    func aLeaseOutlivesABeat(_ beat: String, _ dead: String, _ isValid: Bool) {
        let said = Self.message(["--heartbeat-ms", beat, "--dead-after-ms", dead])
        #expect(said == (isValid ? nil : "--dead-after-ms must be longer than --heartbeat-ms."))
    }

    @Test func connectionsOfOneAddress() throws {
        let standard = try Self.options([])
        #expect(standard.server.maxConnectionsPerAddress == 10_000)
        #expect(standard.server.unlimitedNetworks.map(\.description) == ["127.0.0.0/8", "::1/128"])
        // Whoever sets it means this machine, too.
        let set = try Self.options(["--max-connections-per-address", "3", "--trusted-proxies", "10.0.0.0/8"])
        #expect(set.server.maxConnectionsPerAddress == 3)
        #expect(set.server.unlimitedNetworks.map(\.description) == ["10.0.0.0/8"])
        #expect(try Self.options(["--max-connections-per-address", "0"]).server.maxConnectionsPerAddress == nil)
    }

    // MARK: Texts

    @Test(arguments: [
        ("100/s", 100.0, 100.0), ("600/m", 10, 600), ("3600/h", 1, 3_600), ("100/s:500", 100, 500),
        ("1/h:1", 1 / 3_600.0, 1),
    ]) func rates(_ text: String, _ perSecond: Double, _ burst: Double) throws {
        let limit = RateLimit(perSecond: perSecond, burst: burst)
        #expect(try Self.options(["--rate-limit-per-address", text]).gateway.limits.perAddress == limit)
        #expect(try Self.options(["--rate-limit-per-address", text]).gateway.limits.perIdentity == nil)
        #expect(try Self.options(["--rate-limit-per-identity", text]).gateway.limits.perIdentity == limit)
    }

    @Test(arguments: ["", "100", "0/s", "-1/s", "1/d", "1/s:", "1/s:0", "1/s:x", "1.5/s", "1/s/s", " 1/s", "/s"])
    func ratesThatAreNone(_ text: String) {
        for name in ["rate-limit-per-address", "rate-limit-per-identity"] {
            #expect(
                Self.message(["--\(name)", text])
                    == "--\(name) must be a rate such as 100/s, 600/m or 100/s:500 (500 at once after a pause).")
        }
    }

    @Test func networks() throws {
        let options = try Self.options([
            "--trusted-proxies", "10.0.0.0/8,192.0.2.1", "--trusted-proxies", "2001:db8::/32", "--metrics-from",
            "0.0.0.0/0",
        ])
        #expect(
            options.gateway.limits.trustedProxies.map(\.description) == ["10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32"])
        #expect(options.gateway.metricsNetworks.map(\.description) == ["0.0.0.0/0"])
        for name in ["trusted-proxies", "metrics-from"] {
            for text in ["x", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/8,x", "10.0.0.0/8 ,::1"] {
                let said = try #require(Self.message(["--\(name)", text]))
                #expect(said.hasPrefix("--\(name): \"") && said.contains("neither an address nor a network"))
            }
        }
    }

    @Test(arguments: ["on", "remote_apply", "remote_write", "local", "off"]) func commitLevels(_ level: String) throws {
        #expect(try Self.options(["--synchronous-commit", level]).connection.synchronousCommit == level)
    }

    @Test(arguments: [
        ("synchronous-commit", "yes", "--synchronous-commit must be on, remote_apply, remote_write, local or off."),
        (
            "synchronous-commit", "on; drop",
            "--synchronous-commit must be on, remote_apply, remote_write, local or off."
        ),
        ("log-format", "xml", "--log-format must be text or json."),
        ("log-format", "", "--log-format must be text or json."),
        ("log-level", "loud", "--log-level must be debug, info, notice, warning or error."),
        ("log-level", "INFO", "--log-level must be debug, info, notice, warning or error."),
        ("session-label", "g", "--session-label must be at most 8 hex digits (0 to 9, a to f)."),
        ("session-label", "A", "--session-label must be at most 8 hex digits (0 to 9, a to f)."),
        ("session-label", "123456789", "--session-label must be at most 8 hex digits (0 to 9, a to f)."),
        ("session-label", "\"><", "--session-label must be at most 8 hex digits (0 to 9, a to f)."),
        ("hsts-max-age-s", "x", nil),
    ]) func textsThatAreRefused(_ name: String, _ text: String, _ message: String?) {
        #expect(Self.message(["--\(name)", text]) == message)
    }

    @Test(arguments: ["", "0", "abcdef09", "12345678"]) func sessionLabels(_ label: String) throws {
        #expect(try Self.options(["--session-label", label]).gateway.sessionLabel == label)
    }

    @Test(arguments: ["debug", "info", "notice", "warning", "error"], ["text", "json"])
    func logs(_ level: String, _ format: String) throws {
        let log = try ScratchFile()
        let options = try Self.options(["--log-level", level, "--log-format", format], log: log)
        for named in ["debug", "info", "notice", "warning", "error"] {
            options.logger.log(try #require(Logger.Level(name: named)), "event", [("key", "a value")])
        }
        let lines = log.text.split(separator: "\n").map(String.init)
        let order = ["debug", "info", "notice", "warning", "error"]
        #expect(lines.count == order.count - (order.firstIndex(of: level) ?? 0))
        for line in lines {
            if format == "json" {
                #expect(try JSONText(reading: line)["key"] == "a value")
            } else {
                #expect(line.hasSuffix(" event key=\"a value\""))
            }
        }
    }

    // MARK: Rules

    @Test func rulesOfAFile() throws {
        let folder = try ScratchFolder()
        #expect(try !Self.options([]).hasRulesFile)
        let good = try folder.file("good", "{\"rules\": {\".read\": true}} // yes")
        let options = try Self.options(["--rules", good])
        #expect(options.hasRulesFile)
        #expect(options.engine.defaultRules.seq == 0)
        let bad = try folder.file("bad", "{\"rules\": {\".read\": \"nonsense\"}}")
        let error = #expect(throws: CommandFailure.self) { try Self.options(["--rules", bad]) }
        #expect(error?.description.hasPrefix("\(bad) is not a set of rules:\n") == true)
        let none = #expect(throws: CommandFailure.self) { try Self.options(["--rules", folder.path + "/none"]) }
        #expect(none?.description == "\(folder.path)/none can't be read: No such file or directory.")
    }

    // MARK: What does not come by options

    @Test func theServersOwnRefusalsLookLikeTheOthers() throws {
        let (type, body) = try Self.options([]).server.errorBody(413, "Too \"large\"")
        #expect(type == "application/json; charset=utf-8")
        #expect(try JSONText(reading: String(decoding: body, as: UTF8.self)) == ["error": "Too \"large\""])
        #expect(body.last == 0x0A)
    }

    @Test func longStretchesAreLogged() throws {
        let log = try ScratchFile()
        let options = try Self.options(["--log-format", "json"], log: log)
        options.server.onLongStretch("http-0", "request", 250_000_000, 3)
        let line = try JSONText(reading: log.text)
        #expect(line["level"] == "warning")
        #expect(log.text.contains("http-0") && log.text.contains("request") && log.text.contains("250"))
    }

    @Test func mirrorsSeeTheEnvironment() throws {
        let options = try Self.options([], ["REPORTS": "postgresql://there"])
        #expect(options.mirrors.environment == ["REPORTS": "postgresql://there"])
        #expect(options.mirrors.gateway.hasSuffix(":\(getpid())"))
        #expect(options.server.maxHeaderBytes == 80 * 1_024)
        #expect(options.server.maxTargetBytes == 80 * 1_024)
    }
}

extension String {
    /// What stands behind the last occurrence of `text`.
    fileprivate func components(after text: String) -> Substring? {
        var rest = self[...]
        var found: Substring?
        while let range = rest.firstRange(of: text) {
            rest = rest[range.upperBound...]
            found = rest
        }
        return found
    }
}
