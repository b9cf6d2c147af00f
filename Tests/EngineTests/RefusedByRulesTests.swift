import LogStore
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks that callers whom the stored rules refuse for any data are answered without the tree.
@Suite struct RefusedByRulesTests {
    private static let user = AuthContext(auth: Node(children: [(Key("uid"), .string("u"))]))

    private static let origin = Origin(uid: nil, isAdmin: true, via: .cli, address: nil)

    /// Runs the body with a database whose namespace `test` has these rules.
    private static func withRules(_ read: String, _ body: (PostgresURL, TestEngine) throws -> Void) throws {
        try withDatabase { url in
            let connection = try LogConnection(url)
            defer { connection.close() }
            let record = try #require(try connection.namespace(named: "test", creating: true))
            let source = Array("{\"rules\": {\"a\": {\".read\": \"\(read)\", \".write\": \"\(read)\"}}}".utf8)
            _ = try connection.setRules(record.id, source: source, origin: Self.origin)
            let engine = try TestEngine(url)
            defer { engine.stop() }
            try body(url, engine)
        }
    }

    private enum Answer: Equatable {
        case namespace
        case refused
        case failed
    }

    /// Returns a check of whether rules refuse a write at `a`.
    private static func isRefused(_ auth: AuthContext) -> @Sendable (RulesVersion) -> Bool {
        { $0.set.refusal(of: Path(splitting: "a"), .path, auth: auth, now: Clock.unixMilliseconds) != nil }
    }

    private static func ask(_ engine: TestEngine, _ auth: AuthContext, name: String = "test") throws -> Answer {
        try ask(engine, name, unless: isRefused(auth))
    }

    private static func ask(
        _ engine: TestEngine, _ name: String, unless isRefused: @escaping @Sendable (RulesVersion) -> Bool
    ) throws -> Answer {
        let answer = Condition<Answer?>(nil)
        engine.engine.withNamespace(name, unless: isRefused) { result in
            answer.broadcast {
                $0 =
                    switch result {
                    case .success(let namespace): namespace == nil ? .refused : .namespace
                    case .failure: .failed
                    }
            }
        }
        return try #require(answer.wait(milliseconds: 30_000) { $0 })
    }

    private static func read(_ engine: TestEngine, _ path: String, _ auth: AuthContext) throws -> Answer {
        try ask(engine, "test") {
            !$0.set.mayEverRead(Path(splitting: path), query: .plain, auth: auth, now: Clock.unixMilliseconds)
        }
    }

    @Test func theTreeIsNotReadForRefusedReaders() throws {
        try Self.withRules("auth != null && data.exists()") { _, engine throws in
            for _ in 0..<3 {
                #expect(try Self.ask(engine, .unauthenticated) == .refused)
                #expect(try Self.read(engine, "a", .unauthenticated) == .refused)
                #expect(try Self.read(engine, "b", Self.user) == .refused)
            }
            #expect(engine.metrics.loads.current == 0 && engine.engine.liveNamespace("test") == nil)
            // The decision depends on data.
            #expect(try Self.ask(engine, Self.user) == .namespace)
            #expect(engine.metrics.loads.current == 1)
            // The namespace is loaded, so the database is not queried.
            #expect(try Self.ask(engine, .unauthenticated) == .namespace)
            #expect(try Self.read(engine, "a", .unauthenticated) == .namespace)
            #expect(try Self.ask(engine, .unauthenticated, name: "other") == .refused, "it has the gateway's rules")
        }
    }

    @Test func administratorsAndAllowedReadersHaveTheTree() throws {
        for (rule, auth) in [("auth != null", AuthContext.admin), ("auth == null", .unauthenticated)] {
            try Self.withRules(rule) { _, engine throws in
                #expect(try Self.read(engine, "a", auth) == .namespace)
                #expect(engine.metrics.loads.current == 1)
            }
        }
    }

    /// Rules that were replaced before a request never judge it.
    @Test func newRulesHoldAtOnce() throws {
        try Self.withRules("auth != null") { url, engine throws in
            #expect(try Self.ask(engine, .unauthenticated) == .refused)
            let connection = try LogConnection(url)
            defer { connection.close() }
            let record = try #require(try connection.namespace(named: "test"))
            for round in 0..<5 {
                let rule = round % 2 == 0 ? "true" : "false"
                let source = Array("{\"rules\": {\".read\": true, \"a\": {\".write\": \"\(rule)\"}}}".utf8)
                _ = try connection.setRules(record.id, source: source, origin: Self.origin)
                let other = try TestEngine(url)
                defer { other.stop() }
                #expect(try Self.ask(other, .unauthenticated) == (round % 2 == 0 ? .namespace : .refused))
            }
        }
    }

    /// Of many concurrent requests few need the tree: each is answered by rules and data, and the tree is read once.
    @Test func manyAtOnce() throws {
        try Self.withRules("auth != null") { _, engine throws in
            let answers = Condition<[Bool: [Bool]]>([:])
            for number in 0..<400 {
                let isUser = number % 40 == 39
                let auth = isUser ? Self.user : AuthContext.unauthenticated
                engine.engine.withNamespace("test", unless: Self.isRefused(auth)) { result in
                    let isThere = ((try? result.get()) ?? nil) != nil
                    answers.broadcast { $0[isUser, default: []].append(isThere) }
                }
            }
            let all = try #require(
                answers.wait(milliseconds: 30_000) { $0.values.map(\.count).reduce(0, +) == 400 ? $0 : nil })
            #expect(all[true]?.count == 10 && all[true]?.allSatisfy { $0 } == true)
            #expect(engine.metrics.loads.current == 1)
        }
    }

    @Test func aNamespaceThatThereIsNotIsSaidToBeMissing() throws {
        try withEngines { settings, _ in
            settings.createsNamespaces = false
        } _: { _, engines throws in
            #expect(try Self.ask(engines[0], .unauthenticated, name: "none") == .failed)
        }
    }
}
