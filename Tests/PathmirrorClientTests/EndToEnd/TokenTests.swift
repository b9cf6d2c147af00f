import ClientCore
import Foundation
import Runtime
import Testing
import Tokens

@testable import PathmirrorClient

extension EndToEnd {
    /// Checks that an app loses nothing when tokens expire while they are in use.
    @Suite(.timeLimit(.minutes(10))) struct Tokens {
        private static var seconds: Int64 { Int64(Date().timeIntervalSince1970) }

        /// Returns a token as the gateway expects it, signed by default by the secret that stays.
        private static func token(_ user: String, until end: Int64, secret: Int = 1) -> String {
            JWT.mint(
                ["v": 0, "iat": .integer(seconds), "exp": .integer(end), "d": ["uid": .string(user)]],
                secret: Array(TestGateway.secrets[secret].utf8))
        }

        /// Creates a client whose provider returns `first`, and later the result of `next`.
        private func client(
            _ gateway: TestGateway, asked: Recorder<Bool>, first: String,
            next: @escaping @Sendable () async throws -> String
        ) -> Database {
            let database = gateway.client(tokenProvider: { isForced in
                asked.record(isForced)
                return isForced || asked.events.contains(true) ? try await next() : first
            })
            database.configure { $0.connection = { $0.firstRetry = 10 } }
            return database
        }

        private func recordConnections(of database: Database) -> Recorder<Bool> {
            let connections = Recorder<Bool>()
            database.reference(withPath: ".info/connected").observe(.value) {
                connections.record($0.value as? Bool == true)
            }
            return connections
        }

        private func reference(_ database: Database) -> DatabaseReference {
            database.reference(withPath: "users/mia/\(UInt64.random(in: 0 ... .max))")
        }

        /// The app's provider is called for another token before the first one expires. On a machine that is too busy
        /// for a short lifetime, a longer one is used.
        @Test(arguments: [[6, 20, 80] as [Int64]]) func aTokenThatIsReplacedInTime(lives: [Int64]) async throws {
            for life in lives where try await isReplacedInTime(life) { return }
            Issue.record("none of these lives was enough, in seconds: \(lives)")
        }

        /// Returns false if the first token expired before the other one reached the server, so that the client had to
        /// reconnect.
        private func isReplacedInTime(_ life: Int64) async throws -> Bool {
            let gateway = try #require(TestGateway.current)
            let asked = Recorder<Bool>()
            let end = Self.seconds + life
            let database = client(
                gateway, asked: asked, first: Self.token("mia", until: end),
                next: { Self.token("mia", until: end + 3_600) })
            let connections = recordConnections(of: database)
            let ref = reference(database)
            try await ref.setValue(1)
            let patience = Int(life) + 60
            try await until("another one is asked for", seconds: patience) { asked.events.contains(true) }
            try await ref.setValue(2)
            try await until("the first one has ended", seconds: patience) { Self.seconds > end + 1 }
            try await ref.setValue(3)
            let events = connections.events
            await database.app?.delete()
            return events == [false, true]
        }

        /// The app has another token only after the server has revoked the login. The first one must be valid until the
        /// first write is done: on a machine that is too busy for a short lifetime, a longer one is used.
        @Test(arguments: [[15, 60, 200] as [Int64]]) func aTokenThatIsReplacedTooLate(lives: [Int64]) async throws {
            for life in lives where try await isReplacedTooLate(life) { return }
            Issue.record("none of these lives was enough, in seconds: \(lives)")
        }

        /// Returns false if the first token expired before the first write was done.
        private func isReplacedTooLate(_ life: Int64) async throws -> Bool {
            let gateway = try #require(TestGateway.current)
            let asked = Recorder<Bool>()
            let hasAnother = MutexBox(false)
            let end = Self.seconds + life
            let database = client(
                gateway, asked: asked, first: Self.token("mia", until: end),
                next: {
                    try await until("another one may be had", seconds: Int(life) + 60) { hasAnother.withLock { $0 } }
                    return Self.token("mia", until: Self.seconds + 3_600)
                })
            let connections = recordConnections(of: database)
            let ref = reference(database)
            let values = ref.recordValues()
            let isWritten = MutexBox(false)
            let first = Task {
                try await ref.setValue(1)
                isWritten.withLock { $0 = true }
            }
            try await until("the first write is done, or the token has ended", seconds: Int(life) + 60) {
                isWritten.withLock { $0 } || Self.seconds > end
            }
            let isInTime = Self.seconds <= end
            if isInTime {
                try await until("the server has taken the login back", seconds: Int(life) + 60) {
                    connections.events.dropFirst(2).contains(false)
                }
                atOnce { ref.setValue(2) }
                hasAnother.withLock { $0 = true }
                try await ref.setValue(3)
                #expect(values.events.suffix(3) == ["1", "2", "3"], "nothing was rolled back: \(values.events)")
                #expect(try await ref.getData().value as? Int == 3)
            }
            hasAnother.withLock { $0 = true }
            try await first.value
            await database.app?.delete()
            return isInTime
        }

        /// The secret that signed the token is removed.
        @Test func aTokenThatIsRevoked() async throws {
            let gateway = try #require(TestGateway.current)
            let asked = Recorder<Bool>()
            let end = Self.seconds + 3_600
            let database = client(
                gateway, asked: asked, first: Self.token("mia", until: end, secret: 0),
                next: { Self.token("mia", until: end) })
            let connections = recordConnections(of: database)
            let ref = reference(database)
            let values = ref.recordValues()
            try await ref.setValue(1)
            try TestGateway.secrets[1].write(toFile: gateway.secretFile, atomically: false, encoding: .utf8)
            try await until("the login was taken back, and there is another") {
                connections.events.suffix(2) == [false, true] && asked.events.contains(true)
            }
            try await ref.setValue(2)
            #expect(values.events.last == "2")
            #expect(values.events.drop { $0 == "null" } == ["1", "2"])
            await database.app?.delete()
        }
    }
}
