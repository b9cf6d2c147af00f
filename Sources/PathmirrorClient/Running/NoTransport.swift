internal import ClientCore

/// Where there is no way to the network: every try fails.
struct NoTransport: RealtimeTransport {
    func connect(
        to address: RealtimeAddress, _ observer: @escaping @Sendable (TransportEvent) -> Void
    ) -> any RealtimeChannel {
        observer(.closed(.unreachable("this build has no transport")))
        return Channel()
    }

    private struct Channel: RealtimeChannel {
        func send(_ text: [UInt8]) {}
        func close() {}
        func processed(_ byteCount: Int) {}
    }
}
