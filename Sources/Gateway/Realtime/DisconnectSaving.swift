import Engine
import Wire

/// Keeps a realtime session's onDisconnect operations and their copy in the database in step.
///
/// One save is under way at a time. What changes meanwhile is saved next, all of it at once. A request is answered once a
/// save that contains it has succeeded; a save that is refused takes back everything that was asked for since the last one
/// that succeeded.
///
/// A state machine without I/O: requests and the outcomes of saves come in, and effects go out, to be carried out in order.
struct DisconnectSaving {
    /// What the session has to do.
    enum Effect: Equatable {
        /// Save the operations as they are now. Exactly one `saveEnded` follows, unless the session ends before.
        case save(Save)
        case accept(Int64)
        /// Tell the client that the database cannot be reached.
        case refuse(Int64)
        /// Take no more requests and close the connection, so that the client asks anew.
        case close
    }

    /// One save.
    struct Save: Equatable {
        /// Greater than that of every save before.
        let number: Int64
        /// Whether the database has no row of the session yet, as far as is known.
        let isFirst: Bool
    }

    /// What is to be done when the client disconnects, with everything that is not saved yet.
    private(set) var operations = DisconnectQueue()
    /// Counts the times at which operations were taken back. What was derived from the operations before does not hold.
    private(set) var revision = 0
    /// The operations that the database has.
    private var saved = DisconnectQueue()
    /// Whether the database has, or may have, a row of the session.
    private var hasRow = false
    private var saveCount: Int64 = 0
    /// The save that is under way: the requests that it answers and what it saves.
    private var current: (requests: [Int64], operations: DisconnectQueue)?
    /// Requests that the save under way does not contain.
    private var waiting: [Int64] = []
    /// Whether something has changed since the save under way began.
    private var mustSaveAgain = false
    /// Whether the session is lost to this gateway: nothing is saved any more.
    private var isOver = false

    var isSaving: Bool { current != nil }

    /// Whether the operations have to be executed when the session ends.
    var mustBeExecuted: Bool { hasRow || isSaving }

    /// A request has changed the operations.
    ///
    /// - Parameter revision: `revision` when `operations` were read for the change.
    mutating func change(to new: DisconnectQueue, since revision: Int, by request: Int64) -> [Effect] {
        if isOver { return [] }
        // It builds on what was refused meanwhile.
        if revision != self.revision { return [.refuse(request)] }
        let hadNone = operations.isEmpty
        operations = new
        if hadNone, new.isEmpty, !isSaving { return [.accept(request)] }
        waiting.append(request)
        return save()
    }

    /// The client is somebody else from now on. The rules judge the operations by who it is when they are executed, so
    /// that is saved with them.
    mutating func loginChanged() -> [Effect] {
        operations.isEmpty || isOver ? [] : save()
    }

    /// The save under way has come to an end.
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
            // Nothing that was refused is executed later, and neither is what was built on it.
            let effects = (current.requests + waiting).map { Effect.refuse($0) }
            operations = saved
            takeBack()
            return effects
        case .over:
            // Other gateways execute the operations, or have. None of the requests is answered.
            hasRow = false
            operations = DisconnectQueue()
            isOver = true
            takeBack()
            return [.close]
        case .unknown:
            // Not refused, as the save may still succeed. What the database has of it is executed at the end, which is now.
            hasRow = true
            isOver = true
            takeBack()
            return [.close]
        }
    }

    private mutating func takeBack() {
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
