internal import ClientCore
internal import Dispatch

/// How a database behaves; fixed when it is first used.
struct DatabaseSettings: Sendable {
    var isPersistenceEnabled = false
    var cacheBytes: UInt = 10 << 20
    var callbackQueue: DispatchQueue = .main
    /// How long `getData` waits for a connection that is being made, in milliseconds.
    var getWait: Int64 = 3_000
    /// How long writes wait for a token that the app was asked for, in milliseconds.
    var tokenWait: Int64 = 30_000
    /// How long after the last turn what was put off is written to disk, in milliseconds.
    var flushDelay: Int64 = 1_000
    /// From how many leaves on a listen is asked to go on behind what is known, instead of comparing hashes.
    var resumptionRows = 500
    /// Nil for the platform's own.
    var transport: (any RealtimeTransport)?
    /// Changes to how connections behave, for tests.
    var connection: (@Sendable (inout ConnectionSettings) -> Void)?
}
