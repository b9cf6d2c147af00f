/// The state of a namespace that is to move, or whose mover ended during the move. Each of the databases may have been
/// restored from a backup since.
public struct MoveFacts: Sendable, Hashable {
    /// The progress of the move as recorded in the primary database.
    public enum Record: Sendable, Hashable {
        case copying
        /// The primary database records that the namespace lives in the target.
        case left
    }

    /// The state in the source of the namespace with the move's id, name and stream key.
    public enum Source: Sendable, Hashable {
        /// The namespace lives in the source.
        case living
        /// The namespace has left the source by this move.
        case former
        /// The namespace was removed from the source for good.
        case removed
        /// The source has no trace of the namespace, or another namespace has its id.
        case unknown
    }

    /// The state of the copy in the target.
    public enum Copy: Sendable, Hashable {
        /// There is no copy of this or another move.
        case none
        /// There is a dormant copy of this move. `isOfTheSource`: its last entry is in the source's log.
        /// `isWhole`: it contains everything that the source had when the namespace left.
        case dormant(isOfTheSource: Bool, isWhole: Bool)
        /// The copy of this move is live.
        case arrived(isWhole: Bool)
        /// There is an orphaned copy: a dormant copy of a move that the primary database does not know, or no longer
        /// knows. `isOfThisSource`: it is a copy of the source's namespace.
        case stranger(isOfThisSource: Bool)
    }

    public var record: Record?
    public var source: Source
    public var copy: Copy
    /// Whether the target has a live namespace with this name that this move has not brought there.
    public var isNameTaken: Bool

    /// Whether the source's log begins after the entry that follows the copy's last entry.
    public var isLogShortened: Bool

    public init(record: Record?, source: Source, copy: Copy, isNameTaken: Bool, isLogShortened: Bool = false) {
        self.isLogShortened = isLogShortened
        self.record = record
        self.source = source
        self.copy = copy
        self.isNameTaken = isNameTaken
    }
}

/// Decides how a move continues or is undone. Handles every state, because an earlier mover may have ended at any
/// moment. Pure.
///
/// Only two steps remove data: `goBack` removes a dormant copy while the namespace lives in the source or was removed
/// there for good, and `clearUp` removes the rest in the source when the target's namespace is live and complete.
public enum MoveMachine {
    /// The administrator's request.
    public enum Wish: Sendable, CaseIterable {
        case move
        case abort
    }

    /// The next step. Each step leads to facts from which the next one follows, until `done`.
    public enum Step: Sendable, Hashable {
        /// Record the move.
        case begin
        /// Record the move again: the primary database has lost the record, but the copy contains it.
        case adopt
        /// Create an empty dormant copy.
        case makeCopy
        /// Copy changes until only few are left. Then block writers, copy the rest and remove the namespace from the
        /// source.
        case follow
        /// Activate the copy.
        case arrive
        /// Record in the primary database that the namespace lives in the target.
        case change
        /// Remove the rest in the source, and the record of the move.
        case clearUp
        /// Remove the record of the move, because there is nothing else to remove.
        case forget
        /// Remove the dormant copy, and the record of the move.
        case goBack
        case done
        /// Stop, because an administrator must check the databases first.
        case refuse(Reason)
    }

    public enum Reason: Sendable, Hashable, CaseIterable {
        /// The source has no such namespace.
        case unknown
        /// The target has another namespace with this name.
        case nameTaken
        /// The target has a copy of a move that the primary database does not know.
        case copyOfAnotherMove
        /// The source was restored from a backup: the copy contains entries that the source lacks.
        case copyIsAhead
        /// The source's log was shortened beyond the copy's position, so it is unknown which changes the copy lacks.
        case logShortened
        /// The namespace has left the source, and the target lacks data that it had stored. All rows are still in the
        /// source.
        case targetLostIt
        /// The source has no trace of the namespace. The copy, if there is one, may be the only one.
        case sourceLostIt
        /// The namespace had left the source, and lives there again because the source was restored from a backup.
        case livesInBoth
        /// The namespace has already left the source: the move can only be completed.
        case tooLateToAbort
        /// The facts fit no move.
        case unclear
    }

    public static func next(_ wish: Wish, _ facts: MoveFacts) -> Step {
        switch facts.record {
        case nil: beginning(wish, facts)
        case .copying: copying(wish, facts)
        case .left: leaving(wish, facts)
        }
    }

    private static func beginning(_ wish: Wish, _ facts: MoveFacts) -> Step {
        guard facts.source == .living else { return .refuse(.unknown) }
        if wish == .move && facts.isNameTaken { return .refuse(.nameTaken) }
        switch facts.copy {
        case .none: return wish == .move ? .begin : .done
        case .stranger(isOfThisSource: true): return .adopt
        case .stranger(isOfThisSource: false): return .refuse(.copyOfAnotherMove)
        case .dormant, .arrived: return .refuse(.unclear)
        }
    }

    private static func copying(_ wish: Wish, _ facts: MoveFacts) -> Step {
        switch (facts.source, facts.copy) {
        case (.living, .arrived): .refuse(.livesInBoth)
        case (.living, _) where wish == .abort: .goBack
        case (.living, _) where facts.isNameTaken: .refuse(.nameTaken)
        case (.living, .none): .makeCopy
        case (.living, .dormant(isOfTheSource: true, _)): .follow
        case (.living, .dormant): .refuse(facts.isLogShortened ? .logShortened : .copyIsAhead)
        case (.living, .stranger): .refuse(.copyOfAnotherMove)
        case (.former, .dormant(_, isWhole: true)), (.former, .arrived(isWhole: true)):
            goingOn(wish, facts)
        case (.former, _): .refuse(.targetLostIt)
        case (.removed, .arrived): .refuse(.unclear)
        case (.removed, _): .goBack
        // A live copy proves that the namespace had left the source.
        case (.unknown, .arrived): goingOn(wish, facts)
        case (.unknown, _): .refuse(.sourceLostIt)
        }
    }

    private static func goingOn(_ wish: Wish, _ facts: MoveFacts) -> Step {
        guard wish == .move else { return .refuse(.tooLateToAbort) }
        if case .arrived = facts.copy { return .change }
        return facts.isNameTaken ? .refuse(.nameTaken) : .arrive
    }

    private static func leaving(_ wish: Wish, _ facts: MoveFacts) -> Step {
        switch (facts.source, facts.copy) {
        case (.former, .arrived(isWhole: true)): wish == .move ? .clearUp : .refuse(.tooLateToAbort)
        // Only the target was restored, to a state just before the copy was activated.
        case (.former, .dormant(_, isWhole: true)): goingOn(wish, facts)
        case (.former, _): .refuse(.targetLostIt)
        case (.unknown, .arrived): wish == .move ? .forget : .refuse(.tooLateToAbort)
        case (.living, .arrived): .refuse(.livesInBoth)
        default: .refuse(.unclear)
        }
    }
}
