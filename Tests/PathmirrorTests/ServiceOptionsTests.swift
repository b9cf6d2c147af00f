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

/// Checks that each option of `dev` and `serve` sets its value, within its bounds, from every source.
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

    /// An option that is a count, a duration in milliseconds, or a size in bytes.
    struct Quantity: Sendable, CustomTestStringConvertible {
        enum Unit: String {
            case count = "N"
            case duration = "TIME"
            case size = "SIZE"
        }

        let name: String
        let unit: Unit
        let range: ClosedRange<Int>
        /// The default.
        let standard: Int
        let read: @Sendable (ServiceOptions) -> Int
        /// Options that the least or the greatest value requires.
        var besides: [String] = []
        var testDescription: String { name }

        init(
            _ name: String, _ unit: Unit, _ range: ClosedRange<Int>, _ standard: Int, besides: [String] = [],
            _ read: @escaping @Sendable (ServiceOptions) -> Int
        ) {
            self.name = name
            self.unit = unit
            self.range = range
            self.standard = standard
            self.besides = besides
            self.read = read
        }

        func text(_ value: Int) -> String {
            switch unit {
            case .count: "\(value)"
            case .duration: "\(value)ms"
            case .size: "\(value)B"
            }
        }

        /// Parses a value in the help or on the command line.
        func value(_ text: String) -> Int? {
            switch unit {
            case .count: Int(text)
            case .duration: TimeSpan.milliseconds(text).map { Int($0) }
            case .size: ByteCount.parse(text)
            }
        }

        /// The form as messages name it.
        var form: String {
            switch unit {
            case .count: "a whole number from "
            case .duration: "a duration such as 15s or 10m, from "
            case .size: "a size such as 64MiB or 4GiB, "
            }
        }
    }

    static let day = 86_400_000

    static let quantities: [Quantity] = [
        .init("retention-interval", .duration, 0...day, 60_000) { Int($0.retention.intervalMilliseconds) },
        .init("loops", .count, 1...256, min(4, Processors.count)) { $0.server.loops },
        .init("committers", .count, 1...64, 4) { $0.engine.committers },
        .init("max-connections", .count, 1...10_000_000, 50_000) { $0.server.maxConnections },
        .init("max-connections-per-address", .count, 0...10_000_000, 10_000) {
            $0.server.maxConnectionsPerAddress ?? 0
        },
        .init("stream-buffer", .size, 1...(1 << 30), 1 << 20) { $0.gateway.streamBufferBytes },
        .init("session-timeout", .duration, 100...day, 60_000) { Int($0.gateway.sessionTimeoutMilliseconds) },
        .init("dead-after", .duration, 50...3_600_000, 15_000) { Int($0.engine.leaseExpiryMilliseconds) },
        .init("commit-deadline", .duration, 1...day, 10_000) { Int($0.engine.commitDeadlineMilliseconds) },
        .init("shutdown-timeout", .duration, 0...3_600_000, 10_000) { Int($0.shutdownMilliseconds) },
        .init("max-body", .size, 1...(1 << 30), 256 << 20) { $0.gateway.maxBodyBytes },
        .init("max-user-body", .size, 1...(1 << 30), 16 << 20, besides: ["--max-body", "1GiB"]) {
            $0.gateway.maxPlainBodyBytes
        },
        .init("request-memory", .size, (1 << 20)...(1 << 45), 1 << 30) { $0.gateway.memory.bytes },
        .init("tree-memory", .size, (1 << 20)...Int.max, MachineMemory.bytes / 2) { $0.engine.treeMemoryBytes },
        .init("clock-skew", .duration, 0...3_600_000, 30_000) { Int($0.credentials.clockSkewSeconds) * 1_000 },
    ]

    /// Checks that the table above contains every quantity among the options.
    @Test func theTableIsWhole() {
        let placeholders = Set(["N", "TIME", "SIZE"])
        let names = ServiceOptions.options.filter { placeholders.contains($0.value ?? "") }.map(\.name)
        #expect(Set(names) == Set(Self.quantities.map(\.name)).union(["hsts-max-age"]))
        for option in ServiceOptions.options {
            guard let quantity = Self.quantities.first(where: { $0.name == option.name }) else { continue }
            #expect(option.value == quantity.unit.rawValue, "\(option.name)")
        }
    }

    /// Checks that there are at most fifty options, without units in their names, and that those of a first deployment are among them.
    @Test func theSurfaceIsSmall() {
        let names = ServeCommand.specification.options.map(\.name)
        #expect(names.count <= 50, "\(names)")
        #expect(Set(names).count == names.count)
        for name in names {
            #expect(
                !["ms", "us", "s", "bytes", "mib", "days"].contains(name.split(separator: "-").last ?? ""), "\(name)")
        }
        for command in [ServeCommand.specification, DevCommand.specification] {
            let first = command.firstOptions.flatMap(\.names)
            #expect(first.allSatisfy { command.option(named: $0) != nil } && Set(first).count == first.count)
            #expect(first.count <= 12)
        }
    }

    @Test(arguments: quantities) func quantitiesAndTheirBounds(_ quantity: Quantity) throws {
        #expect(quantity.read(try Self.options([])) == quantity.standard)
        for value in [quantity.range.lowerBound, quantity.range.upperBound]
        where value % 1_000 == 0 || quantity.name != "clock-skew" {
            let options = try Self.options(["--\(quantity.name)", quantity.text(value)] + quantity.besides)
            #expect(quantity.read(options) == value)
        }
    }

    @Test(arguments: quantities) func quantitiesThatAreRefused(_ quantity: Quantity) {
        var texts = ["", "x", "-1", "1.5", "1e3", "1 ", "1.5s", "99999999999999999999", "99999999999999999999GiB"]
        if quantity.range.upperBound < Int.max { texts.append(quantity.text(quantity.range.upperBound + 1)) }
        if quantity.range.lowerBound > 0 { texts.append(quantity.text(quantity.range.lowerBound - 1)) }
        switch quantity.unit {
        case .count: texts += ["5s", "5B"]
        case .duration: texts += ["0", "1000", "5B", "5 entries"]
        case .size: texts += ["0", "2000000", "5m", "5s"]
        }
        for text in texts {
            let said = Self.message(["--\(quantity.name)", text] + quantity.besides)
            #expect(said?.hasPrefix("--\(quantity.name) must be \(quantity.form)") == true, "\(text): \(said ?? "")")
        }
    }

    /// Checks for each option: the command line has precedence over the environment, then the file, then the default.
    @Test(arguments: quantities) func precedence(_ quantity: Quantity) throws {
        let folder = try ScratchFolder()
        let (least, most) = (quantity.range.lowerBound, quantity.range.upperBound)
        let middle = (least + (most - least) / 2) / 1_000 * 1_000
        let file = try folder.file("c", "\(quantity.name) = \(quantity.text(least))\n")
        let arguments = ["--config", file] + quantity.besides
        #expect(quantity.read(try Self.options(arguments)) == least)
        let option = try #require(ServiceOptions.options.first { $0.name == quantity.name })
        let environment = [option.environmentName: quantity.text(max(middle, least))]
        #expect(quantity.read(try Self.options(arguments, environment)) == max(middle, least))
        let given = arguments + ["--\(quantity.name)", quantity.text(most)]
        #expect(quantity.read(try Self.options(given, environment)) == most)
    }

    /// Checks that the help shows the actual default.
    @Test(arguments: quantities) func theHelpIsRight(_ quantity: Quantity) throws {
        let help = try #require(ServiceOptions.options.first { $0.name == quantity.name }).help
        let reported = help.components(after: "default ").flatMap { rest in
            quantity.value(String(rest.prefix { $0.isNumber || $0.isLetter }))
        }
        guard let reported else {
            // The help of options without a fixed default states that.
            #expect(["loops", "tree-memory"].contains(quantity.name))
            return
        }
        #expect(reported == quantity.standard)
    }

    // MARK: Derived values

    @Test func poolsFollowFromCommittersAndLoops() throws {
        let standard = try Self.options([])
        #expect(standard.engine.logReaders == 2 && standard.engine.loaders == 2 && standard.feeds.readers == 2)
        #expect(standard.gateway.workers == 2)
        let one = try Self.options(["--committers", "1", "--loops", "1"])
        #expect(one.engine.logReaders == 1 && one.engine.loaders == 2 && one.feeds.readers == 1)
        let many = try Self.options(["--committers", "16", "--loops", "12"])
        #expect(many.engine.logReaders == 8 && many.engine.loaders == 8 && many.feeds.readers == 8)
        #expect(many.gateway.workers == 6)
    }

    @Test func boundsFollowFromOthers() throws {
        let standard = try Self.options([])
        #expect(standard.gateway.maxStreams == 50_000 && standard.gateway.maxSessions == 100_000)
        #expect(standard.gateway.answerCacheBytes == 32 << 20)
        #expect(standard.gateway.keepAliveTimeoutMilliseconds == 120_000)
        #expect(standard.engine.heartbeatMilliseconds == 3_000 && standard.feeds.expiryMilliseconds == 5_000)
        let other = try Self.options([
            "--max-connections", "100", "--request-memory", "64MiB", "--session-timeout", "10s", "--dead-after",
            "1500ms",
        ])
        #expect(other.gateway.maxStreams == 100 && other.gateway.maxSessions == 200)
        #expect(other.gateway.answerCacheBytes == 2 << 20)
        // SDKs send data every 45 s: the timeout of idle connections is longer.
        #expect(other.gateway.keepAliveTimeoutMilliseconds == 120_000)
        #expect(other.engine.heartbeatMilliseconds == 300)
        // For all settings of two gateways, each receives the other's heartbeats in time.
        #expect(other.feeds.expiryMilliseconds == 3_000 && other.feeds.heartbeatMilliseconds == 600)
        let large = try Self.options([
            "--request-memory", "64GiB", "--session-timeout", "5m", "--dead-after", "1h",
        ])
        #expect(large.gateway.answerCacheBytes == 32 << 20)
        #expect(large.gateway.keepAliveTimeoutMilliseconds == 600_000)
        // `doctor` counts a gateway as silent after 30 s.
        #expect(large.engine.heartbeatMilliseconds == 3_000)
        #expect(large.feeds.expiryMilliseconds == 8_000 && large.feeds.heartbeatMilliseconds == 1_600)
    }

    // MARK: Constants that tests change

    @Test func constantsAreTuned() throws {
        let log = try ScratchFile()
        let options = try Self.options(
            [], ["PATHMIRROR_TUNE": "heartbeat=1s,long-stretch=7ms,poll-interval=50ms,answer-cache=0B,max-streams=3"],
            log: log)
        #expect(options.engine.heartbeatMilliseconds == 1_000 && options.gateway.answerCacheBytes == 0)
        #expect(options.server.longStallMilliseconds == 7 && options.engine.longStallMilliseconds == 7)
        #expect(options.engine.pollMilliseconds == 50 && options.mirrors.pollMilliseconds == 50)
        #expect(options.gateway.maxStreams == 3)
        #expect(log.text.contains("PATHMIRROR_TUNE"))
        #expect(try Self.options([], ["PATHMIRROR_TUNE": ""]).gateway.maxStreams == 50_000)
        for name in Tuning.names { #expect(!ServiceOptions.options.contains { $0.name == name }, "\(name)") }
    }

    @Test(arguments: [
        "nonsense=1", "heartbeat", "heartbeat=", "heartbeat=5", "heartbeat=0s", "workers=0", "answer-cache=5",
    ])
    func constantsThatAreNone(_ text: String) {
        let error = #expect(throws: UsageError.self) { try Self.options([], ["PATHMIRROR_TUNE": text]) }
        #expect(error?.message.hasPrefix("PATHMIRROR_TUNE: ") == true)
    }

    /// Options of an earlier version may have been limits, so unknown variables are logged.
    @Test func variablesThatNoOptionHasAreLogged() throws {
        let log = try ScratchFile()
        let old = [
            "PATHMIRROR_MAX_USER_BODY_BYTES": "secret-1", "PATHMIRROR_DATABASE_SECRETS_FILE": "secret-2",
            "PATHMIRROR_MAX_BODY": "64MiB",
        ]
        _ = try Self.options([], old, log: log)
        #expect(log.text.contains("match no option are ignored"))
        #expect(log.text.contains("PATHMIRROR_DATABASE_SECRETS_FILE,PATHMIRROR_MAX_USER_BODY_BYTES"))
        #expect(!log.text.contains("secret-"))
        let others = [
            "PATHMIRROR_SINK_A": "x", "PATHMIRROR_TUNE": "", "PATHMIRROR_PORT": "tcp://10.0.0.1:9000",
            "PATHMIRROR_PORT_9000_TCP": "x", "PATHMIRROR_GATEWAY_SERVICE_HOST": "10.0.0.1",
            "PATHMIRROR_GATEWAY_PORT": "tcp://10.0.0.1:9000", "PATHMIRROR_GATEWAY_PORT_9000_TCP_ADDR": "10.0.0.1",
            "PATHMIRROR_SERVICE_PORT": "9000", "PATHMIRROR_CONFIRM": "x", "PATH": "/",
        ]
        let quiet = try ScratchFile()
        _ = try Self.options([], others, log: quiet)
        #expect(quiet.text.isEmpty, "\(quiet.text)")
    }

    // MARK: Values with several uses

    @Test func limitsReachTheServerToo() throws {
        let options = try Self.options([
            "--max-body", "5000B", "--max-user-body", "4kB", "--request-memory", "2MB",
        ])
        #expect(options.server.maxBodyBytes == 5_000)
        #expect(options.server.maxPlainBodyBytes == 4_000)
        #expect(options.gateway.maxMessageBytes == 4_000)
        #expect(options.server.memory.bytes == 2_000_000)
        #expect(options.server.memory === options.gateway.memory)
    }

    @Test func usersBodiesAreNeverLargerThanAdministrators() throws {
        #expect(try Self.options(["--max-body", "1000B"]).gateway.maxPlainBodyBytes == 1_000)
        #expect(try Self.options(["--max-body", "1000B"]).server.maxPlainBodyBytes == 1_000)
        let both = try Self.options(["--max-body", "1000B", "--max-user-body", "2kB"])
        #expect(both.gateway.maxPlainBodyBytes == 1_000)
        // A realtime message has the given limit.
        #expect(both.gateway.maxMessageBytes == 2_000)
    }

    @Test func anAddressGetsAQuarterOfTheMemory() throws {
        #expect(try Self.options(["--request-memory", "4MB"]).gateway.memory.bytesPerAddress == 1_000_000)
    }

    @Test func connectionsOfOneAddress() throws {
        let standard = try Self.options([])
        #expect(standard.server.maxConnectionsPerAddress == 10_000)
        #expect(standard.server.unlimitedNetworks.map(\.description) == ["127.0.0.0/8", "::1/128"])
        // An explicit value also applies to this machine.
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

    @Test(arguments: [
        ("64MiB/m", Double(64 << 20) / 60, Double(64 << 20)), ("1MB/s:64MB", 1_000_000, 64_000_000),
        ("36GB/h", 10_000_000, 36_000_000_000),
    ]) func writeLimits(_ text: String, _ perSecond: Double, _ burst: Double) throws {
        #expect(
            try Self.options(["--write-limit", text]).gateway.limits.writeBytes
                == RateLimit(perSecond: perSecond, burst: burst))
    }

    @Test(arguments: [
        "", "67108864", "64MiB", "64/m", "64MiB/d", "0B/m", "64MiB/m:", "64MiB/m:5", "64MiB/m:0B", "-1MiB/m",
    ])
    func writeLimitsThatAreNone(_ text: String) {
        #expect(
            Self.message(["--write-limit", text])?.hasPrefix("--write-limit must be a size and a time, such as 64MiB/m")
                == true)
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
        #expect(error?.description.hasPrefix("\(bad) contains invalid rules:\n") == true)
        let none = #expect(throws: CommandFailure.self) { try Self.options(["--rules", folder.path + "/none"]) }
        #expect(none?.description == "\(folder.path)/none can't be read: No such file or directory.")
    }

    // MARK: Values without an option

    @Test func theServersOwnRefusalsLookLikeTheOthers() throws {
        let (type, body) = try Self.options([]).server.errorBody(413, "Too \"large\"")
        #expect(type == "application/json; charset=utf-8")
        #expect(try JSONText(reading: String(decoding: body, as: UTF8.self)) == ["error": "Too \"large\""])
        #expect(body.last == 0x0A)
    }

    @Test func longStallsAreLogged() throws {
        let log = try ScratchFile()
        let options = try Self.options(["--log-format", "json"], log: log)
        options.server.onLongStall("http-0", "request", 250_000_000, 3)
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
    /// The text after the last occurrence of `text`.
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
