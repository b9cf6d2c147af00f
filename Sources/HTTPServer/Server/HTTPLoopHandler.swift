public import Runtime

/// What the application does with requests. One instance a loop, made on that loop's thread by the server's factory and
/// only ever called there, so it needs no locks. It must not block: what takes time goes elsewhere and comes back by
/// `ExchangeReference.perform`.
public protocol HTTPLoopHandler: AnyObject {
    /// A complete request has come. Answer now or later, once, by the exchange; while it is open the connection's next
    /// request waits. Keep the exchange (or its reference) if the answer comes later.
    func requestReceived(_ request: HTTPRequest, _ exchange: HTTPExchange)

    /// Whether the sender of this request, whose body has not come yet, may send more than `maxPlainBodyBytes`. Must be
    /// answered from what is known at once.
    func allowsLargeBody(_ head: HTTPRequest) -> Bool

    /// Whose share of memory this request's body takes: its peer's, or that of whom a proxy speaks for.
    func sender(of head: HTTPRequest) -> IPAddress

    /// The server takes no new connections and will stop: end your streams. Called once before `loopWillStop`.
    func loopWillDrain()

    /// The loop is about to close what connections are left and end.
    func loopWillStop()
}

extension HTTPLoopHandler {
    /// Everybody may send large bodies, unless the handler says otherwise.
    public func allowsLargeBody(_ head: HTTPRequest) -> Bool { true }
    /// The peer's own address, unless the handler knows of proxies.
    public func sender(of head: HTTPRequest) -> IPAddress { head.remoteIP }
    /// Nothing, unless the handler has something to end.
    public func loopWillDrain() {}
    /// Nothing, unless the handler has something to end.
    public func loopWillStop() {}
}
