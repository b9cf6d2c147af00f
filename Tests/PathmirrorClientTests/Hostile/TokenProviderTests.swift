import ClientCore
import ClientSupport
import Foundation
import Runtime
import Testing
import Wire

@testable import PathmirrorClient

/// Checks apps whose token providers are slow, or never answer.
@Suite(.timeLimit(.minutes(3))) struct TokenProviderTests {
    private static func isWrite(_ action: ClientAction) -> Bool { if case .put = action { true } else { false } }
    private static func login(_ action: ClientAction) -> String? {
        if case .authenticate(let login) = action { login.credential } else { nil }
    }

    /// A call that is never answered must not block writes once a later call is answered.
    @Test func aQuestionThatIsNeverAnswered() async throws {
        let server = try ScriptedServer()
        let asked = Recorder<Bool>()
        let database = TestDatabases.make(
            url: server.url,
            tokenProvider: { isForced in
                asked.record(isForced)
                if asked.events.count == 1 { await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in } }
                return "a.b.c"
            })
        database.configure {
            $0.connection = {
                $0.firstRetry = 10
                $0.connectTimeout = 1_000
            }
        }
        try await database.reference(withPath: "a").setValue(1)
        #expect(asked.events.count >= 2)
        await database.app?.delete()
    }

    /// While connected, the wait for a new token is limited: the old one is still valid.
    @Test func aRefreshThatIsNeverAnswered() async throws {
        let server = try ScriptedServer()
        let asked = Recorder<Bool>()
        let isSilent = MutexBox(false)
        let database = TestDatabases.make(
            url: server.url,
            tokenProvider: { isForced in
                asked.record(isForced)
                if isSilent.withLock({ $0 }) {
                    await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
                }
                return "a.b.c"
            })
        database.configure { $0.tokenWait = 200 }
        let ref = database.reference(withPath: "a")
        // However often a busy machine makes it connect, each call up to here is answered.
        try await ref.setValue(1)
        let before = (questions: asked.events.count, connections: server.connections.events.count)
        isSilent.withLock { $0 = true }
        database.app?.tokenDidChange()
        try await ref.setValue(2)
        #expect(asked.events.count == before.questions + 1)
        #expect(server.connections.events.count == before.connections)
        await database.app?.delete()
    }

    /// The newest call's answer counts, whenever the older calls are answered.
    @Test func answersInAnotherOrder() async throws {
        let server = try ScriptedServer()
        let asked = Recorder<Int>()
        let mayAnswer = MutexBox(false)
        let database = TestDatabases.make(
            url: server.url,
            tokenProvider: { _ in
                asked.record(asked.events.count + 1)
                guard asked.events.count == 1 else { return "new.b.c" }
                while !mayAnswer.withLock({ $0 }) { try? await Task.sleep(for: .milliseconds(1)) }
                return "old.b.c"
            })
        let ref = database.reference(withPath: "a")
        ref.observe(.value) { _ in }
        try await until("the first is asked for") { asked.events.count == 1 }
        database.app?.tokenDidChange()
        try await until("the second has come") { server.requests.events.contains { Self.login($0) != nil } }
        mayAnswer.withLock { $0 = true }
        // The answers to these writes come after all effects of the old token.
        for value in 1...3 { try await ref.setValue(value) }
        #expect(server.requests.events.compactMap(Self.login) == ["new.b.c"])
        await database.app?.delete()
    }

    /// An error thrown by the provider may contain a token: neither the log nor an error shows it.
    @Test func aProviderThatThrows() async throws {
        struct Failure: Error, CustomStringConvertible {
            var description: String { "no luck with secret-token-1" }
        }
        let server = try ScriptedServer()
        let database = TestDatabases.make(url: server.url, tokenProvider: { _ in throw Failure() })
        await #expect {
            try await database.reference(withPath: "a").getData()
        } throws: { !"\($0)".contains("secret-token-1") }
        #expect(!server.requests.events.contains(where: Self.isWrite))
        await database.app?.delete()
    }
}
