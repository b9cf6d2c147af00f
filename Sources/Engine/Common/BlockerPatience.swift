import Runtime

/// How long a connection that keeps committers waiting may hear nothing of its client.
struct BlockerPatience: Sendable {
    /// For a gateway's connection. PostgreSQL shows nothing of a message that is still coming: it has to be longer than a
    /// slow line takes for what is sent under the head's lock (see `EngineSettings.maxBatchBytes`).
    var gatewayMilliseconds: Milliseconds = 6_000
    /// For any other program of this one's, such as an import, which may read from something slow.
    var otherMilliseconds: Milliseconds = 60_000
}
