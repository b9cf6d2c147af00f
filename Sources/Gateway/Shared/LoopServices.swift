import HTTPServer
import Runtime
import Wire

/// The services that the handlers of one event loop share.
struct LoopServices {
    let loop: EventLoop
    let settings: GatewaySettings
    let metrics: GatewayMetrics
    /// Threads for tasks that take too long for a loop.
    let workers: WorkerPool
    let responder: Responder

    /// Answers a request for the data of a namespace with an error, and reports it if the rules deny the request.
    func refuse(_ exchange: HTTPExchange, in namespace: String, _ error: RESTError) {
        if error == .permissionDenied { settings.onDenial?(namespace) }
        responder.respond(error, to: exchange)
    }
}

/// Gives other threads access to an object of an event loop. The link does not retain the object.
//
// @unchecked Sendable is safe: the owner is set before the link is shared. After that, only work on the owner's loop
// reads it.
final class LoopLink<Owner: AnyObject>: @unchecked Sendable {
    let loop: EventLoop
    private weak var owner: Owner?

    init(_ loop: EventLoop) { self.loop = loop }

    /// Sets the object that the link leads to. Call it once, on the loop, before sharing the link.
    func lead(to owner: Owner) { self.owner = owner }

    /// Runs `work` on the loop, in the order of posting. Does nothing if the owner was deallocated. Any thread.
    func post(_ work: @escaping @Sendable (Owner) -> Void) {
        loop.post { [self] in
            if let owner { work(owner) }
        }
    }

    /// Calls `body` for each item, as many in one slice of the loop's time as fit, and then calls `completion`. Call it
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

/// Requests that wait for a result from another thread, each with its continuation. There is one instance for each loop
/// and kind of result; it belongs to the loop's thread.
///
/// When a client disconnects, its request is removed together with everything that it retains.
final class ExchangeWaits<Value: Sendable> {
    private var waiting: [UInt64: (Value) -> Void] = [:]
    private let link: LoopLink<ExchangeWaits>

    init(_ loop: EventLoop) {
        link = LoopLink(loop)
        link.lead(to: self)
    }

    /// The number of waiting requests.
    var count: Int { waiting.count }

    /// Makes the exchange wait. The caller must call the returned function once, on any thread, with the result; `body`
    /// then runs with the result on the loop, unless the exchange has ended.
    func wait(_ exchange: HTTPExchange, _ body: @escaping (Value) -> Void) -> @Sendable (Value) -> Void {
        let id = exchange.id
        waiting[id] = body
        exchange.onClose = { [weak self] in self?.waiting[id] = nil }
        return { [link] value in
            link.post { waits in waits.waiting.removeValue(forKey: id)?(value) }
        }
    }

    /// Removes a request that does not have to wait after all.
    func cancel(_ exchange: HTTPExchange) { waiting[exchange.id] = nil }
}
