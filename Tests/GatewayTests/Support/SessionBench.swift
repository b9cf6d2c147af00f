import Engine
import HTTPServer
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tree

@testable import Gateway
@testable import HTTPServer

/// A gateway's event loop without a server. Tests start realtime sessions on it with their own transports, and access
/// them on the loop's thread.
final class SessionBench: Sendable {
    /// State of the loop's thread.
    ///
    /// @unchecked Sendable is safe: only work on the loop touches `hub`.
    private final class HubHolder: @unchecked Sendable {
        var hub: RealtimeHub?
    }

    let url: PostgresURL
    let engine: Engine
    let gateway: Gateway
    let namespace: LiveNamespace
    private let loop: EventLoop
    private let thread: Thread
    private let holder = HubHolder()

    init(
        _ url: PostgresURL, _ engine: TestEngine, rules: String? = nil, credentials: Gateway.Credentials? = nil,
        _ change: (inout GatewaySettings) -> Void = { _ in }
    ) throws {
        var settings = GatewaySettings()
        change(&settings)
        self.url = url
        self.engine = engine.engine
        var accepted = Gateway.Credentials()
        accepted.acceptsOwner = true
        accepted.acceptsUnsignedTokens = true
        let gateway = Gateway(
            engine: engine.engine, settings: settings, credentials: credentials ?? accepted, logger: .silent)
        self.gateway = gateway
        namespace = try engine.namespace()
        let loop = try EventLoop(index: 0, HTTPServerSettings())
        self.loop = loop
        thread = Thread(name: "bench") { [holder] in
            loop.run {
                holder.hub = RealtimeHub(gateway.realtime, loop)
                // Ten times as often as in a gateway.
                loop.schedule(everyMilliseconds: 100) { holder.hub?.sweep() }
            }
            holder.hub = nil
        }
        if let rules { try setRules(rules) }
    }

    func stop() {
        loop.post { [loop] in
            loop.stopRunning()
        }
        thread.join()
        gateway.stop()
    }

    /// Runs `body` on the loop, and waits for its result.
    func on<Result: Sendable>(_ body: @escaping @Sendable (RealtimeHub) -> Result) throws -> Result {
        let result = Condition<Result?>(nil)
        loop.post { [holder] in
            guard let hub = holder.hub else { return }
            let value = body(hub)
            result.broadcast { $0 = value }
        }
        return try #require(result.wait(milliseconds: 30_000) { $0 }, "the loop does not answer")
    }

    /// Waits until all posted work is done, including work that this work posts.
    func settle() throws { for _ in 0..<3 { try on { _ in } } }

    func connect(
        isLoopback: Bool = true, address: String = "127.0.0.1", isExtended: Bool = false
    ) throws -> ScriptedClient {
        try ScriptedClient(self, isLoopback: isLoopback, address: address, isExtended: isExtended)
    }

    /// Sets the namespace's rules.
    func setRules(_ source: String) throws {
        let set = try RuleSet(json: Array(source.utf8))
        let write = Write(.rules(set), operation: .rules, byteCount: source.utf8.count, auth: .admin)
        _ = try #require(namespace.write(write)?.committedSeq)
    }

    /// Writes a value as an unspecified other client.
    @discardableResult
    func write(_ path: String, _ json: String) throws -> Int64 {
        let value = try JSONParser.parse(json)
        return try #require(namespace.write(.set(path, value))?.committedSeq)
    }

    /// Returns the value at a path as JSON.
    func value(_ path: String) throws -> String {
        var writer = JSONWriter(form: .plain)
        writer.write(namespace.snapshot.root[Path(splitting: path)])
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// Returns the number of sessions with rows in the database.
    func savedSessions() throws -> Int {
        let connection = try PostgresConnection(url)
        defer { connection.close() }
        return try connection.execute("select 1 from pathmirror.session").rowCount
    }

    /// Whether all operations of sessions are executed, and this gateway has received the resulting entries.
    var isAtRest: Bool {
        get throws {
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            guard try connection.execute("select 1 from pathmirror.session").rowCount == 0 else { return false }
            let head = try connection.execute("select head from pathmirror.namespace where name = 'test'").int64(0, 0)
            return namespace.snapshot.seq == head
        }
    }

    func execute(_ script: String) throws {
        let connection = try PostgresConnection(url)
        defer { connection.close() }
        try connection.executeScript(script)
    }
}

/// Runs `body` with a bench on a new database.
func withBench(
    rules: String? = nil, credentials: Gateway.Credentials? = nil,
    _ change: (inout GatewaySettings) -> Void = { _ in },
    engine: (inout EngineSettings) -> Void = { _ in }, _ body: (SessionBench) throws -> Void
) throws {
    try withDatabase { url in
        let testEngine = try TestEngine(url) { settings, _ in
            settings.pollMilliseconds = 20
            settings.defaultRules = RulesVersion(seq: 0, set: .allowAll, enforcesIndexes: false)
            engine(&settings)
        }
        defer { testEngine.stop() }
        let bench = try SessionBench(url, testEngine, rules: rules, credentials: credentials, change)
        defer { bench.stop() }
        try body(bench)
    }
}

/// A realtime client that communicates with its session without a connection.
final class ScriptedClient: Sendable {
    let bench: SessionBench
    let transport = ScriptedTransport()
    let id: String
    private let numbers = MutexBox<Int64>(0)

    fileprivate init(_ bench: SessionBench, isLoopback: Bool, address: String, isExtended: Bool) throws {
        self.bench = bench
        id = try bench.on { [transport, namespace = bench.namespace] hub in
            hub.begin(namespace, transport, isLoopback: isLoopback, address, isExtended: isExtended).id
        }
    }

    /// Runs `body` with the session on its loop. Returns nil if the session has ended.
    func on<Result: Sendable>(_ body: @escaping @Sendable (RealtimeSession) -> Result) throws -> Result? {
        try bench.on { [id] hub in hub.sessions[id].map(body) }
    }

    var isOpen: Bool { get throws { try on { _ in true } ?? false } }

    /// Sends texts that arrive together. Returns false if the connection must be closed.
    @discardableResult
    func send(_ texts: String...) throws -> Bool { try send(texts) }

    func send(_ texts: [String]) throws -> Bool {
        try on { session in
            for text in texts where !session.take(Array(text.utf8)) { return false }
            return true
        } ?? false
    }

    /// The text of a request, with the next request number.
    func request(_ action: String, _ body: String = "{}") -> (number: Int64, text: String) {
        let number = numbers.withLock { number -> Int64 in
            number += 1
            return number
        }
        return (number, #"{"t":"d","d":{"r":\#(number),"a":"\#(action)","b":\#(body)}}"#)
    }

    /// Sends a request, and returns its number.
    @discardableResult
    func ask(_ action: String, _ body: String = "{}") throws -> Int64 {
        let (number, text) = request(action, body)
        #expect(try send(text))
        return number
    }

    /// Sends several requests that arrive together.
    @discardableResult
    func askTogether(_ requests: [(action: String, body: String)]) throws -> [Int64] {
        let made = requests.map { request($0.action, $0.body) }
        #expect(try send(made.map(\.text)))
        return made.map(\.number)
    }

    /// Returns the next message.
    func next() throws -> String { try #require(transport.next(), "no message came") }

    /// Expects these messages next.
    func expect(_ messages: String..., at location: SourceLocation = #_sourceLocation) throws {
        for message in messages {
            let found = try next()
            #expect(found == message, sourceLocation: location)
        }
    }

    /// Sends a request, and expects its answer as the next message.
    func ask(
        _ action: String, _ body: String = "{}", gives status: String, _ detail: String = #""""#,
        at location: SourceLocation = #_sourceLocation
    ) throws {
        let number = try ask(action, body)
        let found = try next()
        #expect(found == Self.answer(number, status, detail), sourceLocation: location)
    }

    /// Expects no more messages once all work in progress on the loop is done.
    func expectNothing(at location: SourceLocation = #_sourceLocation) throws {
        try ask("s")
        let number = numbers.withLock { $0 }
        let found = try next()
        #expect(found == Self.ok(number), sourceLocation: location)
    }

    /// The connection is gone.
    func disconnect() throws {
        try bench.on { [id] hub in hub.ended(id) }
    }

    // MARK: Texts

    static func answer(_ number: Int64, _ status: String, _ detail: String = #""""#) -> String {
        #"{"t":"d","d":{"r":\#(number),"b":{"s":"\#(status)","d":\#(detail)}}}"#
    }

    static func ok(_ number: Int64, _ detail: String = #""""#) -> String { answer(number, "ok", detail) }

    static let denied = #""Permission denied""#

    /// A push of a value.
    static func put(_ path: String, _ json: String, tag: Int? = nil) -> String {
        push("d", path, json, tag)
    }

    static func merge(_ path: String, _ json: String, tag: Int? = nil) -> String { push("m", path, json, tag) }

    private static func push(_ action: String, _ path: String, _ json: String, _ tag: Int?) -> String {
        let end = tag.map { #","t":\#($0)"# } ?? ""
        return #"{"t":"d","d":{"a":"\#(action)","b":{"p":"\#(path)","d":\#(json)\#(end)}}}"#
    }

    static func cancel(_ path: String, query: String? = nil) -> String {
        let end = query.map { #","q":[\#($0)]"# } ?? ""
        return #"{"t":"d","d":{"a":"c","b":{"p":"\#(path)"\#(end)}}}"#
    }
}
