/// What one attempt to move bytes through a socket came to.
package enum StreamOutcome: Equatable {
    /// So many bytes were moved (at least one).
    case moved(Int)
    /// Nothing can be moved now: wait for the event.
    case wouldBlock
    /// The peer sends no more (only when receiving).
    case finished
    /// The connection is gone.
    case failed(Int32)
}
