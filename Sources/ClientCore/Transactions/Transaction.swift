public import Tree

/// What a transaction does with the value that it finds: the value to write (server values in it as they are), or nil to
/// leave everything as it is. Called as often as other data comes in between, and must not have other effects.
public typealias TransactionBody = (Node) -> Node?

/// The number of a transaction of this client, until the app ends.
public struct TransactionID: Sendable, Hashable, Comparable {
    public let rawValue: UInt64

    public init(rawValue: UInt64) { self.rawValue = rawValue }

    public static func < (left: TransactionID, right: TransactionID) -> Bool { left.rawValue < right.rawValue }
}

/// Why a transaction was given up.
public enum TransactionFailure: Error, Sendable, Equatable {
    /// A set or an update at an overlapping place came in between.
    case overridden
    /// Other data came in between each time that it was run.
    case tooManyRetries
    /// It was sent, the connection ended, and nobody knows whether it was done.
    case connectionLost
    /// The owner took back all writes.
    case purged
    case refused(RequestFailure)
}

/// How a transaction ended.
public struct TransactionOutcome: Sendable, Equatable {
    public enum Result: Sendable, Equatable {
        /// The value that was written, server values estimated.
        case committed(Node)
        /// The body left everything as it is. With the value that it found last.
        case abandoned(Node)
        case failed(TransactionFailure)
    }

    /// Of the transaction that ended.
    public let id: TransactionID
    /// Told once for each transaction.
    public let result: Result
    /// Whether the committed value holds estimates of server values.
    public var isEstimate = false
}

/// What follows from one step of the transactions: first the events and listens, then what is sent, then who is told
/// that he is done.
public struct TransactionEffects: Sendable {
    /// A value to send, with the hash of the one that it is to replace.
    public struct Put: Sendable, Equatable {
        /// By a number of its own, which is no write of the sync tree.
        public let write: PendingWrite
        /// `Node.hash` of the value that was found: the server refuses the write where it has another.
        public let hash: String
    }

    /// What the sync tree's listeners are told, and what the server is asked for.
    public var sync = SyncEffects()
    /// What is sent, in this order; each is answered with `TransactionQueue.answered`.
    public var puts: [Put] = []
    /// Whose transactions have ended, in this order.
    public var outcomes: [TransactionOutcome] = []

    public init() {}

    mutating func add(_ effects: SyncEffects) {
        sync.events += effects.events
        sync.listens += effects.listens
    }
}

/// A transaction on its way.
final class Transaction {
    enum Status: Equatable {
        /// Run on what is known, and not sent.
        case ready
        case sent
        /// Sent, and to be given up unless the server took it.
        case sentInVain(TransactionFailure)
        /// To be given up when it would run again.
        case failed(TransactionFailure)
        case done
    }

    let id: TransactionID
    let path: Path
    let body: TransactionBody
    let appliesLocally: Bool
    /// Keeps the data of the place there.
    let listener: Registration
    var status = Status.ready
    var sendCount = 0
    /// What the body found last.
    var input = Node.null
    /// What it made of it: as it said, and with server values estimated.
    var output = Node.null
    var estimate = Node.null
    /// Under which the sync tree has the output.
    var write = WriteID(rawValue: 0)

    init(id: TransactionID, path: Path, appliesLocally: Bool, listener: Registration, body: @escaping TransactionBody) {
        self.id = id
        self.path = path
        self.appliesLocally = appliesLocally
        self.listener = listener
        self.body = body
    }
}
