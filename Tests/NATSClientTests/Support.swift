import NATSClient
import Runtime
import TestSupport

extension NATSClient {
    /// Creates a client of a test's server, with short timeouts.
    static func to(_ server: TestNATS, _ change: (inout NATSSettings) -> Void = { _ in }) throws -> NATSClient {
        var settings = NATSSettings(servers: [server.url])
        change(&settings)
        return try NATSClient(settings)
    }

    /// Publishes and waits. Returns nil if there is no outcome in time.
    func result(_ message: NATSMessage) -> Result<NATSAcknowledgement, NATSError>? {
        let outcome = Condition<Result<NATSAcknowledgement, NATSError>?>(nil)
        publish(message) { result in outcome.broadcast { $0 = result } }
        return outcome.wait(milliseconds: 60_000) { $0 }
    }

    func failure(_ message: NATSMessage) -> NATSError? {
        if case .failure(let error) = result(message) { error } else { nil }
    }

    func acknowledgement(_ message: NATSMessage) -> NATSAcknowledgement? { try? result(message)?.get() }
}

extension NATSMessage {
    static func order(_ number: Int, subject: String = "orders.new") -> NATSMessage {
        NATSMessage(subject: subject, id: "default:\(number):0", body: Array("{\"n\":\(number)}".utf8))
    }
}
