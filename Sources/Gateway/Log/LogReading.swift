import Engine
import HTTPServer
import Runtime

/// What a reading of the log needs of the loop that it is on.
protocol LogReadingHost: AnyObject {
    /// Reads the slice after a place and passes it to the reading's `received`.
    func read(_ reading: any LogReading, at place: LogPlace)
    /// Says `woke` to a reading once the namespace has come to an entry.
    func awaitEntry(_ seq: Int64, for reading: any LogReading)
}

/// A client that is being given the log: a stream, or one request that waits. Belongs to its loop's thread.
protocol LogReading: AnyObject {
    var exchange: HTTPExchange { get }
    var identity: Identity { get }
    var namespace: LiveNamespace { get }
    var view: LogView { get }
    /// A slice that was asked for is here, or can't be had.
    func received(_ result: Result<LogSlice, LogReadError>)
    /// The log may have more.
    func woke()
    /// The client has taken all that waited for it.
    func drained()
    /// Says that the connection is alive, where nothing else does, and looks whether there is more after all.
    func keepAlive()
    /// The client's credential has ended.
    func revoke()
    /// Its time is over, or the gateway is about to stop.
    func end()
}
