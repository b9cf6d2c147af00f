import Glibc
import Runtime
import Testing

/// Checks that each log event is one line, with any content.
@Suite struct LoggerTests {
    /// Returns the output of a logger.
    private func written(
        _ format: Logger.Format, _ level: Logger.Level = .info, _ body: (Logger) -> Void
    ) -> String {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { return "" }
        body(Logger(level: level, format: format, descriptor: ends[1]))
        close(ends[1])
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = read(ends[0], &bytes, bytes.count)
        close(ends[0])
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
    }

    private func lines(
        _ format: Logger.Format, _ level: Logger.Level = .info, _ body: (Logger) -> Void
    ) -> [String] {
        written(format, level, body).split(separator: "\n").map(String.init)
    }

    /// Logged text can't start a new line.
    @Test(arguments: [Logger.Format.text, .json])
    func oneLineAnEvent(format: Logger.Format) {
        let found = lines(format) { logger in
            logger.debug("not shown")
            logger.info("two\nlines", [("key", "a\nb \"c\" \u{1}\\")])
            logger.error("plain", [("key", "value")])
        }
        #expect(found.count == 2)
        #expect(found.allSatisfy { !$0.utf8.contains { $0 < 0x20 } })
    }

    /// A logger with added fields leaves the first logger unchanged.
    @Test(arguments: [Logger.Format.text, .json])
    func addedFields(format: Logger.Format) {
        let found = lines(format) { logger in
            logger.adding([("database", "b")]).adding([("part", "c")]).info("one", [("key", "value")])
            logger.info("two")
        }
        let text = format == .text ? "key=value database=b part=c" : #""key":"value","database":"b","part":"c"}"#
        #expect(found[0].hasSuffix(text))
        #expect(found[1].hasSuffix(format == .text ? "info two" : #""message":"two"}"#))
    }

    /// Each level shows itself and the levels above.
    @Test(arguments: Logger.Level.allCases)
    func levelsAreOrdered(level: Logger.Level) {
        let found = lines(.text, level) { logger in
            logger.debug("m")
            logger.info("m")
            logger.notice("m")
            logger.warning("m")
            logger.error("m")
        }
        let names = found.map { String($0.split(separator: " ")[1]) }
        #expect(names == Logger.Level.allCases.filter { $0 >= level }.map(\.name))
    }

    @Test func levelsHaveNames() {
        for level in Logger.Level.allCases { #expect(Logger.Level(name: level.name) == level) }
        for name in ["", "Info", "trace", "warn", "error "] { #expect(Logger.Level(name: name) == nil) }
    }

    /// A field is quoted if its end would be ambiguous.
    @Test(arguments: [
        ("value", "value"), ("", "\"\""), ("two words", "\"two words\""), ("a=b", "\"a=b\""),
        ("say \"x\"", "\"say \\\"x\\\"\""),
        ("a\nb", "\"a\\nb\""), ("tab\t", "\"tab\\u0009\""), ("\u{7F}", "\"\\u007f\""), ("\u{0}", "\"\\u0000\""),
        ("é😀", "é😀"),
        ("back\\slash", "back\\slash"), ("q\"", "\"q\\\"\""),
    ])
    func textFields(value: String, shown: String) throws {
        let line = try #require(lines(.text) { $0.info("message", [("k", value), ("last", "1")]) }.first)
        #expect(line.hasSuffix(" info message k=\(shown) last=1"))
    }

    @Test(arguments: [
        ("value", "value"), ("", ""), ("say \"x\"\\", "say \\\"x\\\"\\\\"), ("a\nb", "a\\nb"),
        ("\u{1B}[31m", "\\u001b[31m"),
        ("é😀", "é😀"),
    ])
    func jsonFields(value: String, shown: String) throws {
        let line = try #require(lines(.json) { $0.warning(value, [(value, value)]) }.first)
        #expect(line.hasPrefix("{\"time\":\""))
        #expect(line.hasSuffix("\"level\":\"warning\",\"message\":\"\(shown)\",\"\(shown)\":\"\(shown)\"}"))
    }

    /// The time comes first, in UTC with milliseconds.
    @Test func timesCanBeSorted() throws {
        let before = Timestamp.iso8601(unixMilliseconds: Clock.unixMilliseconds)
        let line = try #require(lines(.text) { $0.info("m") }.first)
        let after = Timestamp.iso8601(unixMilliseconds: Clock.unixMilliseconds)
        let time = String(line.prefix(24))
        #expect(before <= time && time <= after)
    }

    /// A secret that is interpolated, printed or passed as a field is not shown.
    @Test(arguments: [Logger.Format.text, .json])
    func secretsStayHidden(format: Logger.Format) {
        let secret = Secret("hunter2")
        let all = written(format) { logger in
            logger.error("login with \(secret)", [("secret", "\(secret)"), ("list", "\([secret, secret])")])
            logger.error("\(String(reflecting: secret)) \(String(describing: Optional(secret)))")
        }
        #expect(!all.contains("hunter2"))
        #expect(all.contains("****"))
    }

    /// Lines of threads that log at once do not mix.
    @Test func linesOfThreadsStayWhole() {
        let all = written(.text) { logger in
            let threads = (0..<4).map { index in
                Thread(name: "log") {
                    for number in 0..<50 { logger.info("thread", [("n", "\(index)-\(number)"), ("end", "end")]) }
                }
            }
            for thread in threads { thread.join() }
        }
        let found = all.split(separator: "\n")
        #expect(found.count == 200)
        #expect(found.allSatisfy { $0.hasSuffix(" end=end") && $0.contains(" info thread n=") })
        #expect(Set(found.map { $0.dropFirst(24) }).count == 200)
    }

    /// A log that can't be written does not stop the service.
    @Test func aLogThatCannotBeWrittenIsNoFailure() {
        let logger = Logger(level: .debug, descriptor: -1)
        logger.error("lost")
    }
}

@Suite struct SecretTests {
    private struct Login {
        let user = "ada"
        let password = Secret("hunter2")
    }

    @Test func isNotShown() {
        let secret = Secret("hunter2")
        var dumped = ""
        dump(secret, to: &dumped)
        dump(Login(), to: &dumped)
        for text in [
            "\(secret)", String(describing: secret), String(reflecting: secret), dumped, "\([secret])", "\(Login())",
            "\(["k": secret])", String(reflecting: Optional(secret)),
        ] {
            #expect(!text.contains("hunter2"))
        }
        #expect(secret.revealed() == "hunter2")
    }

    @Test func otherValuesAreHiddenToo() {
        let key = Secret([UInt8](repeating: 0x41, count: 4))
        #expect("\(key)" == "****")
        #expect(Mirror(reflecting: key).children.isEmpty)
        #expect(key.revealed() == [0x41, 0x41, 0x41, 0x41])
    }
}
