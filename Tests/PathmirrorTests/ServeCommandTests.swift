import Gateway
import Glibc
import HTTPClient
import HTTPServer
import Runtime
import TestSupport
import Testing

@testable import pathmirror

/// Checks that `serve` prints its addresses, serves there, reloads its files on request, and ends on request.
@Suite(.timeLimit(.minutes(20))) struct ServeCommandTests {
    /// A `serve` on a thread of its own.
    final class Running: Sendable {
        let descriptors: Descriptors
        private let isEnding = Condition(false)
        private let code = Condition<Int32?>(nil)

        init(_ arguments: [String], hangups: Int = 0) throws {
            descriptors = try Descriptors()
            let isEnding = self.isEnding
            let console = SendableConsole(
                descriptors.console(ScriptedSignals(hangups: hangups) { isEnding.withLock { $0 } }))
            let code = self.code
            _ = Thread(name: "serve") {
                let result = Commands.run(arguments, console.console, Environment(values: [:]))
                code.broadcast { $0 = result }
            }
        }

        /// The addresses that it has printed.
        func addresses(_ scheme: String = "http") -> [String] {
            let sign = "pathmirror: ready on \(scheme)://"
            return descriptors.output.text.split(separator: "\n").filter { $0.hasPrefix(sign) }.map {
                String($0.dropFirst(sign.count))
            }
        }

        func waitUntilReady() -> String? {
            _ = eventually(seconds: 120) { !addresses().isEmpty || !addresses("https").isEmpty || ended() != nil }
            return addresses().first
        }

        func ended() -> Int32? { code.withLock { $0 } }

        func end() -> Int32? {
            isEnding.broadcast { $0 = true }
            return code.wait(milliseconds: 60_000) { $0 }
        }
    }

    /// Written before the thread begins, and read only by the thread.
    private struct SendableConsole: @unchecked Sendable {
        let console: Console
        init(_ console: Console) { self.console = console }
    }

    static func request(_ method: String, _ url: String, _ body: String = "", headers: [(String, String)] = []) throws
        -> ClientResponse
    {
        let client = try HTTPClient()
        defer { client.stop() }
        var request = HTTPClientRequest(url)
        request.allowsPlainHTTP = true
        request.method = method
        request.headers = headers
        request.body = Array(body.utf8)
        let outcome = Condition<Result<ClientResponse, HTTPClientError>?>(nil)
        client.send(request) { result in outcome.broadcast { $0 = result } }
        return try #require(outcome.wait(milliseconds: 60_000) { $0 }).get()
    }

    private static func serve(_ database: CommandDatabase, _ more: [String], hangups: Int = 0) throws -> Running {
        try Running(
            [
                "serve", "--database-url", database.connectionText, "--listen", "127.0.0.1:0", "--loops", "1",
                "--log-format", "json",
            ] + more,
            hangups: hangups)
    }

    @Test func servesAndEnds() throws {
        try TestDatabase.withEmpty { url in
            let database = try CommandDatabase(url)
            let folder = try ScratchFolder()
            let secret = String(repeating: "s", count: 40)
            let file = try folder.file("secret", secret)
            let serve = try Self.serve(database, ["--admin-secret-file", file, "--ns", "one,two"])
            let address = try #require(serve.waitUntilReady())
            let put = try Self.request("PUT", "http://\(address)/a.json?auth=\(secret)", "{\"b\":1}")
            #expect(put.status == 200)
            #expect(try Self.request("GET", "http://\(address)/a/b.json?ns=one&auth=\(secret)").body == Array("1".utf8))
            // Other clients are rejected, and the log states that at the start.
            #expect(try Self.request("GET", "http://\(address)/a.json").status == 401)
            #expect(serve.descriptors.errors.text.contains("no --rules file: namespaces without uploaded rules"))
            #expect(serve.end() == 0)
            #expect(try database.tree("one") == ["a": ["b": 1]])
            #expect(
                try database.value("select string_agg(name, ',' order by name) from pathmirror.namespace") == "one,two")
            // The log is on standard error, one JSON object a line.
            for line in serve.descriptors.errors.text.split(separator: "\n") {
                #expect(try JSONText(reading: String(line))["message"] != nil)
            }
            #expect(serve.descriptors.errors.text.contains("\"migrated\""))
            #expect(!serve.descriptors.errors.text.contains(secret))
        }
    }

    @Test func hangupsReadTheFilesAgain() throws {
        try withCommands { database throws in
            let folder = try ScratchFolder()
            let file = try folder.file("secret", String(repeating: "s", count: 40))
            let serve = try Self.serve(database, ["--admin-secret-file", file], hangups: 1)
            _ = serve.waitUntilReady()
            #expect(eventually(seconds: 60) { serve.descriptors.errors.text.contains("secrets read") })
            #expect(serve.end() == 0)
        }
    }

    @Test func overTLSAlone() throws {
        try withCommands { database throws in
            let folder = try ScratchFolder()
            let serve = try Running(
                ["serve", "--database-url", database.connectionText, "--tls-listen", "127.0.0.1:0", "--loops", "1"]
                    + TLSOptionsTests.pair(folder))
            _ = serve.waitUntilReady()
            #expect(serve.addresses().isEmpty)
            #expect(serve.addresses("https").count == 1)
            #expect(serve.end() == 0)
        }
    }

    @Test func rulesOfAFile() throws {
        try withCommands { database throws in
            let folder = try ScratchFolder()
            let rules = try folder.file("rules", "{\"rules\": {\"open\": {\".read\": true, \".write\": true}}}")
            let serve = try Self.serve(database, ["--rules", rules, "--create-namespaces"])
            let address = try #require(serve.waitUntilReady())
            #expect(try Self.request("PUT", "http://\(address)/open/a.json?ns=new", "1").status == 200)
            #expect(try Self.request("PUT", "http://\(address)/closed.json", "1").status == 401)
            #expect(!serve.descriptors.errors.text.contains("no --rules"))
            #expect(serve.end() == 0)
        }
    }

    @Test func aPortThatIsTaken() throws {
        try withCommands { database throws in
            let first = try Self.serve(database, [])
            let address = try #require(first.waitUntilReady())
            let run = try database.run(["serve", "--listen", address, "--loops", "1", "--log-level", "error"])
            #expect(run.exitCode == 1)
            #expect(run.output.isEmpty)
            #expect(run.errors.contains(address) || run.errors.contains("in use"))
            #expect(first.end() == 0)
        }
    }

    @Test func withoutTheSchema() throws {
        try TestDatabase.withEmpty { url in
            let database = try CommandDatabase(url)
            let run = try database.run(["serve", "--no-migrate", "--listen", "127.0.0.1:0"])
            #expect(run.exitCode == 1)
            #expect(run.errors.contains("run 'pathmirror migrate up'"))
            #expect(try database.value("select 1::text from pg_namespace where nspname = 'pathmirror'") == nil)
        }
    }

    @Test(arguments: [
        (["--listen", "nowhere"], "--listen must be HOST:PORT"), (["--tls-key", "/x"], "TLS needs both"),
        (["--loops", "0"], "--loops must be"),
        (["--allow-origin", "*"], "--allow-origin: "), (["--no-migrate=yes"], "--no-migrate takes no value."),
    ]) func mistakes(_ arguments: [String], _ said: String) throws {
        let run = try pathmirror(["serve", "--database-url", "host=/nowhere"] + arguments)
        #expect(run.exitCode == 2)
        #expect(run.errors.contains("pathmirror serve: \(said)"), "\(run.errors)")
    }

    @Test func aDatabaseThatIsNotThere() throws {
        let run = try pathmirror([
            "serve", "--database-url", "postgresql://u:hunter2secret@127.0.0.1:1/x", "--log-level", "error",
        ])
        #expect(run.exitCode == 1)
        #expect(!run.errors.contains("hunter2"))
    }
}

/// Checks that `dev` starts everything it needs, prints the first commands, and leaves no process running.
@Suite(.timeLimit(.minutes(20))) struct DevCommandTests {
    @Test func startsServesAndEnds() throws {
        let folder = try ScratchFolder()
        // PostgreSQL runs as another user if the tests run as root, and needs access.
        chmod(folder.path, 0o711)
        let data = try folder.file("data.json", "{\"users\":{\"1\":{\"name\":\"Ada\"}}}")
        let arguments = ["dev", "--port", "0", "--data", folder.path + "/d", "--loops", "1", "--ns", "mine"]
        let dev = try ServeCommandTests.Running(arguments + ["--import", data])
        let address = try #require(dev.waitUntilReady())
        #expect(eventually(seconds: 60) { dev.descriptors.output.text.contains("psql -h ") })
        // Clients on this machine are administrators, and the data is there.
        let got = try ServeCommandTests.request("GET", "http://\(address)/users/1/name.json")
        #expect(String(decoding: got.body, as: UTF8.self) == "\"Ada\"")
        // Commands find its database by its folder.
        let export = try pathmirror(["export", "--ns", "mine", "--data", folder.path + "/d"])
        #expect(try JSONText(reading: export.output) == ["users": ["1": ["name": "Ada"]]])
        let second = try pathmirror(["dev", "--port", "0", "--data", folder.path + "/d"])
        #expect(second.exitCode == 1)
        #expect(second.errors.contains("in use by another pathmirror"))
        #expect(dev.end() == 0)
        let after = try pathmirror(["export", "--ns", "mine", "--data", folder.path + "/d"])
        #expect(after.exitCode == 1 && after.errors.contains("has none"))
    }

    @Test(arguments: [
        ["--port", "65536"], ["--port", "x"], ["--port", "-1"], ["extra"], ["--listen", "127.0.0.1:1"],
    ])
    func mistakes(_ arguments: [String]) throws {
        let run = try pathmirror(["dev"] + arguments)
        #expect(run.exitCode == 2 && run.output.isEmpty)
    }
}
