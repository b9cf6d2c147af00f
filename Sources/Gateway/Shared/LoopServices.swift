import HTTPServer
import Runtime

/// What the handlers of one event loop have in common.
struct LoopServices {
    let loop: EventLoop
    let settings: GatewaySettings
    let metrics: GatewayMetrics
    /// Threads for what takes too long for a loop.
    let workers: WorkerPool
    let responder: Responder
}

/// Reaches an object of an event loop from other threads. The link does not keep the object.
//
// @unchecked Sendable is safe: the owner is set before the link is given away, and after that it is read only in work that
// runs on its own loop.
final class LoopLink<Owner: AnyObject>: @unchecked Sendable {
    let loop: EventLoop
    private weak var owner: Owner?

    init(_ loop: EventLoop) { self.loop = loop }

    /// Says whom the link leads to. Call it once, on the loop, before the link is given away.
    func lead(to owner: Owner) { self.owner = owner }

    /// Does `work` on the loop, in the order of posting; does nothing where the owner is gone. Any thread.
    func post(_ work: @escaping @Sendable (Owner) -> Void) {
        loop.post { [self] in
            if let owner { work(owner) }
        }
    }

    /// Does something with each of many, as many in one slice of the loop's time as fit in, and then `completion`. Call it
    /// on the loop.
    func inSlices<Item: Sendable>(
        _ items: [Item], of owner: Owner, from start: Int = 0, _ body: @escaping @Sendable (Owner, Item) -> Void,
        then completion: @escaping @Sendable (Owner) -> Void = { _ in }
    ) {
        for index in start..<items.count {
            body(owner, items[index])
            if loop.isSliceOver {
                return post { [self] owner in inSlices(items, of: owner, from: index + 1, body, then: completion) }
            }
        }
        completion(owner)
    }
}

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
