import HTTPServer

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
