/// Why a private PostgreSQL could not be had: one sentence that says what to do.
public struct ClusterError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Kind: Sendable, Equatable {
        /// No suitable PostgreSQL on this machine.
        case notInstalled
        /// Another live process works with the data directory.
        case inUse(processID: Int32?)
        /// The operating system refused something: a folder, a permission.
        case system
        /// The cluster could not be created.
        case creation
        /// PostgreSQL ended instead of starting, or did not answer in time.
        case start
    }

    public var kind: Kind
    public var message: String

    init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }

    public var description: String { message }
}
