import Runtime
import Synchronization

/// How a mirror fares, as this gateway knows it.
public struct MirrorReport: Sendable, Equatable {
    public enum State: String, Sendable {
        case running, paused, broken
        /// Another gateway runs it.
        case elsewhere
        /// Its table is being made.
        case building
    }

    public let namespace: String
    public let name: String
    public var state: State
    /// The entry up to which the table has come; 0 while unknown.
    public var seq: Int64 = 0
    /// Entries that the table lacks.
    public var lagEntries: Int64 = 0
    /// For how long it has lacked some.
    public var lagMilliseconds: Int64 = 0
    /// Why it is broken.
    public var message: String?
}

/// The reports of all mirrors; any thread may look.
final class ReportBoard: Sendable {
    private let reports = Mutex<[String: [MirrorReport]]>([:])

    /// Replaces the reports of one group of mirrors.
    func set(_ group: String, _ new: [MirrorReport]?) {
        reports.withLock { $0[group] = new }
    }

    var all: [MirrorReport] {
        reports.withLock { $0.values.flatMap { $0 } }.sorted { ($0.namespace, $0.name) < ($1.namespace, $1.name) }
    }
}
