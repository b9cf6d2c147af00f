import HTTPServer

/// Requests that wait for a result from another thread, each with what goes on then. One for each loop and kind of result;
/// belongs to the loop's thread.
///
/// A request whose client goes away is forgotten, with everything that it holds.
final class ExchangeWaits<Value: Sendable> {
    private var waiting: [UInt64: (Value) -> Void] = [:]
    private let link: LoopLink<ExchangeWaits>

    init(_ loop: EventLoop) {
        link = LoopLink(loop)
        link.lead(to: self)
    }

    /// How many wait.
    var count: Int { waiting.count }

    /// Has the exchange wait. The function that is returned is to be called once, on any thread, with the result; `body` is
    /// then done with it on the loop, unless the exchange has ended by then.
    func wait(_ exchange: HTTPExchange, _ body: @escaping (Value) -> Void) -> @Sendable (Value) -> Void {
        let id = exchange.id
        waiting[id] = body
        exchange.onClose = { [weak self] in self?.waiting[id] = nil }
        return { [link] value in
            link.post { waits in waits.waiting.removeValue(forKey: id)?(value) }
        }
    }

    /// Forgets a request that is not to wait after all.
    func cancel(_ exchange: HTTPExchange) { waiting[exchange.id] = nil }
}
