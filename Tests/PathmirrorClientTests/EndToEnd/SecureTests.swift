import ClientCore
import Foundation
import Testing

@testable import PathmirrorClient

extension EndToEnd {
    /// Checks TLS connections to servers that prove their identity, and to others, which receive no data.
    @Suite(.timeLimit(.minutes(2))) struct Secure {
        private func database(_ gateway: TestGateway, host: String, isTrusted: Bool) -> Database {
            TestDatabases.make(
                url: "https://\(host):\(gateway.securePort)", authorities: isTrusted ? gateway.certificate : nil)
        }

        @Test func aServerWhoseAuthorityIsTrusted() async throws {
            let ground = try Ground()
            let ref = database(ground.gateway, host: "localhost", isTrusted: true).reference(withPath: ground.path)
            try await ref.setValue(["text": String(repeating: "long ", count: 100_000)])
            #expect(try await ground.client().child("text").getData().json.utf8.count > 500_000)
            #expect(try await ref.child("text").getData().exists())
        }

        /// The certificate is for another name, or of an authority that is not trusted.
        @Test(arguments: [("127.0.0.1", true), ("localhost", false)])
        func aServerThatProvesNothing(host: String, isTrusted: Bool) async throws {
            let ground = try Ground()
            let database = database(ground.gateway, host: host, isTrusted: isTrusted)
            let asked = Recorder<Bool>()
            let tries = Recorder<String>()
            database.configure {
                $0.connection = { $0.firstRetry = 10 }
                $0.transport = database.app.map { Watched(transport: $0.transport, tries: tries) }
            }
            let ref = database.reference(withPath: ground.path)
            database.reference(withPath: ".info/connected").observe(.value) { asked.record($0.value as? Bool == true) }
            atOnce { ref.setValue("secret") }
            try await until("it was tried thrice") { tries.events.count >= 3 }
            #expect(tries.events.allSatisfy { $0.hasPrefix("no secure connection: ") }, "\(tries.events)")
            #expect(asked.events == [false])
            #expect(try await !ground.client().getData().exists())
            await database.app?.delete()
        }
    }
}

/// A transport that reports how its connections ended.
private struct Watched: RealtimeTransport {
    let transport: any RealtimeTransport
    let tries: Recorder<String>

    func connect(
        to address: RealtimeAddress, _ observer: @escaping @Sendable (TransportEvent) -> Void
    ) -> any RealtimeChannel {
        transport.connect(to: address) { [tries] event in
            if case .closed(let closure) = event { tries.record(closure.description) }
            observer(event)
        }
    }
}
