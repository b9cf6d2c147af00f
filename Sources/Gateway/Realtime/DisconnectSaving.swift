import Engine
import Wire

/// Keeps a realtime session's onDisconnect operations and their copy in the database consistent.
///
/// One save is in flight at a time. All changes made meanwhile are saved together by the next one. A request is
/// answered once a save that contains it has succeeded. A save that is refused rolls back all changes since the last
/// successful save.
///
/// A state machine without I/O: it receives requests and the outcomes of saves, and returns effects to execute in
/// order.
struct DisconnectSaving {
    /// An action for the session.
    enum Effect: Equatable {
        /// Save the current operations. Exactly one `saveEnded` follows, unless the session ends before.
        case save(Save)
        case accept(Int64)
        /// Report to the client that the database is unreachable.
        case refuse(Int64)
        /// Accept no more requests and close the connection, so that the client sends its requests again.
        case close
    }

    /// One save.
    struct Save: Equatable {
        /// Greater than the number of every earlier save.
        let number: Int64
        /// Whether the database is not known to have a row of the session.
        let isFirst: Bool
    }

    /// The operations to execute when the client disconnects, including those that are not saved yet.
    private(set) var operations = DisconnectQueue()
    /// The number of rollbacks. Operations that were derived from those before a rollback are invalid.
    private(set) var revision = 0
    /// The operations that the database has.
    private var saved = DisconnectQueue()
    /// Whether the database has, or may have, a row of the session.
    private var hasRow = false
    private var saveCount: Int64 = 0
    /// The save in flight: the requests that it answers, and the operations that it saves.
    private var current: (requests: [Int64], operations: DisconnectQueue)?
    /// Requests that the save in flight does not contain.
    private var waiting: [Int64] = []
    /// Whether an operation or the login has changed since the save in flight began.
    private var mustSaveAgain = false
    /// Whether this gateway has lost the session. Nothing is saved any more.
    private var isOver = false

    var isSaving: Bool { current != nil }

    /// Whether the operations have to be executed when the session ends.
    var mustBeExecuted: Bool { hasRow || isSaving }

    /// Handles a request that changes the operations.
    ///
    /// - Parameter revision: the `revision` at which the caller read `operations`.
    mutating func change(to new: DisconnectQueue, since revision: Int, by request: Int64) -> [Effect] {
        if isOver { return [] }
        // The change is based on operations that were refused meanwhile.
        if revision != self.revision { return [.refuse(request)] }
        let hadNone = operations.isEmpty
        operations = new
        if hadNone, new.isEmpty, !isSaving { return [.accept(request)] }
        waiting.append(request)
        return save()
    }

    /// Handles a new login. The rules check the operations against the login when they are executed, so the login is
    /// saved with them.
    mutating func loginChanged() -> [Effect] {
        operations.isEmpty || isOver ? [] : save()
    }

    /// Handles the end of the save in flight.
    mutating func saveEnded(_ outcome: SaveOutcome) -> [Effect] {
        guard let current else { return [] }
        self.current = nil
        switch outcome {
        case .saved:
            saved = current.operations
            hasRow = true
            let effects = current.requests.map { Effect.accept($0) }
            return mustSaveAgain ? effects + save() : effects
        case .refused:
            // Refused operations, and operations based on them, are never executed.
            let effects = (current.requests + waiting).map { Effect.refuse($0) }
            operations = saved
            rollBack()
            return effects
        case .over:
            // Other gateways execute the operations, or have done so. None of the requests is answered.
            hasRow = false
            operations = DisconnectQueue()
            isOver = true
            rollBack()
            return [.close]
        case .unknown:
            // The requests are not refused, as the save may still succeed. The session ends now, which executes the
            // operations that the database has.
            hasRow = true
            isOver = true
            rollBack()
            return [.close]
        }
    }

    private mutating func rollBack() {
        waiting.removeAll()
        mustSaveAgain = false
        revision += 1
    }

    private mutating func save() -> [Effect] {
        guard current == nil else {
            mustSaveAgain = true
            return []
        }
        mustSaveAgain = false
        saveCount += 1
        current = (waiting, operations)
        waiting.removeAll()
        return [.save(Save(number: saveCount, isFirst: !hasRow))]
    }
}
