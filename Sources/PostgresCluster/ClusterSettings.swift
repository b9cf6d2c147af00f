public import Runtime

/// What a private PostgreSQL is started with.
public struct ClusterSettings: Sendable {
    public enum Durability: Sendable {
        /// A commit survives a crash of the machine.
        case full
        /// A commit survives a crash of PostgreSQL, but not of the machine: fsync is off. For tests.
        case testFast
    }

    /// The folder that holds everything: created if it doesn't exist. A relative path counts from the current
    /// directory.
    public var dataDirectory: String
    /// Default: `full`.
    public var durability = Durability.full
    /// Further settings for postgresql.conf, over the defaults of this module. `ALTER SYSTEM` still overrides them.
    public var settings: [String: String] = [:]
    /// How long PostgreSQL may take to answer; recovery after a crash is part of it.
    public var startTimeoutMilliseconds: Milliseconds = 120_000
    /// Told what takes time or is worth knowing, one sentence each. Called on the thread that calls `start`.
    public var progress: (@Sendable (String) -> Void)?

    public init(dataDirectory: String) {
        self.dataDirectory = dataDirectory
    }
}
