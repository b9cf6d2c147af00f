public import Tree

/// The function of a transaction: receives the present value and returns the value to write, which may contain server
/// values, or nil to write nothing. It is called again each time other data arrives in between, and must not have other
/// effects.
public typealias TransactionBody = (Node) -> Node?

/// The number of a transaction of this client, unique until the app ends.
public struct TransactionID: Sendable, Hashable, Comparable {
    public let rawValue: UInt64

    public init(rawValue: UInt64) { self.rawValue = rawValue }

    public static func < (left: TransactionID, right: TransactionID) -> Bool { left.rawValue < right.rawValue }
}

/// The reason why a transaction failed.
public enum TransactionFailure: Error, Sendable, Equatable {
    /// A set or an update at an overlapping path came in between.
    case overridden
    /// Other data came in between each time that the transaction was run.
    case tooManyRetries
    /// The transaction was sent, the connection ended, and the outcome is unknown.
    case connectionLost
    /// The owner cancelled all writes.
    case purged
    case refused(RequestFailure)
}

/// The outcome of a transaction.
public struct TransactionOutcome: Sendable, Equatable {
    public enum Result: Sendable, Equatable {
        /// The written value, with estimated server values.
        case committed(Node)
        /// The function returned nil. With the last value that it received.
        case abandoned(Node)
        case failed(TransactionFailure)
    }

    /// The transaction that ended.
    public let id: TransactionID
    /// Reported once for each transaction.
    public let result: Result
    /// Whether the committed value contains estimates of server values.
    public var isEstimate = false
}

/// The results of one step of the transactions, in this order: events and listens, values to send, and outcomes.
public struct TransactionEffects: Sendable {
    /// A value to send, with the hash of the value that it replaces.
    public struct Put: Sendable, Equatable {
        /// The write has a number of its own, which is not a write of the sync tree.
        public let write: PendingWrite
        /// `Node.hash` of the value that was read: the server refuses the write if it has another value.
        public let hash: String
    }

    /// Events for the sync tree's listeners, and listens to start and stop.
    public var sync = SyncEffects()
    /// Values to send, in this order; each is answered by `TransactionQueue.answered`.
    public var puts: [Put] = []
    /// Outcomes of transactions that have ended, in this order.
    public var outcomes: [TransactionOutcome] = []

    public init() {}

    mutating func add(_ effects: SyncEffects) {
        sync.events += effects.events
        sync.listens += effects.listens
    }
}

/// A transaction in progress.
final class Transaction {
    enum Status: Equatable {
        /// Run on the known data, and not sent.
        case ready
        case sent
        /// Sent, and fails unless the server accepts it.
        case sentInVain(TransactionFailure)
        /// Fails at its next run.
        case failed(TransactionFailure)
        case done
    }

    let id: TransactionID
    let path: Path
    let body: TransactionBody
    let appliesLocally: Bool
    /// Keeps the data of the path loaded.
    let listener: Registration
    var status = Status.ready
    var sendCount = 0
    /// The last value that the function received.
    var input = Node.null
    /// The value that the function returned, as returned and with estimated server values.
    var output = Node.null
    var estimate = Node.null
    /// The number of the output's write in the sync tree.
    var write = WriteID(rawValue: 0)

    init(id: TransactionID, path: Path, appliesLocally: Bool, listener: Registration, body: @escaping TransactionBody) {
        self.id = id
        self.path = path
        self.appliesLocally = appliesLocally
        self.listener = listener
        self.body = body
    }
}
