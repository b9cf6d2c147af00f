/// Names an exchange across threads. Get back to it with `loop.post` and, there, `loop.exchange(for:)`; the exchange
/// may have ended by then.
public struct ExchangeReference: Sendable, Hashable {
    /// The loop that the exchange belongs to.
    public let loop: EventLoop
    let connection: UInt64
    let exchange: UInt64

    /// Does `work` with the exchange on its loop, or `otherwise` there if the exchange has ended by then. Any thread.
    public func perform(
        otherwise: @escaping @Sendable () -> Void = {}, _ work: @escaping @Sendable (HTTPExchange) -> Void
    ) {
        loop.post {
            if let exchange = loop.exchange(for: self) { work(exchange) } else { otherwise() }
        }
    }

    public static func == (left: ExchangeReference, right: ExchangeReference) -> Bool {
        left.exchange == right.exchange && left.connection == right.connection && left.loop === right.loop
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(exchange)
    }
}
