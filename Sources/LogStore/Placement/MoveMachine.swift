/// What is found of a namespace that is to move, or was being moved when its mover ended. Each of the databases may have gone back to
/// a backup since.
public struct MoveFacts: Sendable, Hashable {
    /// How far the home says that the move has come; nil where it knows of none.
    public enum Record: Sendable, Hashable {
        case copying
        /// The home says that the namespace lives in the target now.
        case left
    }

    /// What the source has of it: of that id, name and stream key.
    public enum Source: Sendable, Hashable {
        /// It lives there.
        case living
        /// It has left by this move.
        case former
        /// It was removed there for good.
        case removed
        /// There is no trace of it, or its id is another's.
        case unknown
    }

    /// What the target has of it.
    public enum Copy: Sendable, Hashable {
        /// No copy of this move, nor of another one.
        case none
        /// This move's copy, which nobody works on. Its last entry is one of the source's; it has all that the source had when it left.
        case dormant(isOfTheSource: Bool, isWhole: Bool)
        /// This move's copy, which lives.
        case arrived(isWhole: Bool)
        /// The dormant copy of a move that the home does not know, or not any more; of the namespace that the source has, or not.
        case stranger(isOfThisSource: Bool)
    }

    public var record: Record?
    public var source: Source
    public var copy: Copy
    /// The target has a living namespace of the name that this move has not brought there.
    public var isNameTaken: Bool

    /// The source's log begins behind the copy's last entry.
    public var isLogShortened: Bool

    public init(record: Record?, source: Source, copy: Copy, isNameTaken: Bool, isLogShortened: Bool = false) {
        self.isLogShortened = isLogShortened
        self.record = record
        self.source = source
        self.copy = copy
        self.isNameTaken = isNameTaken
    }
}

/// Decides how a move goes on, or back, from whatever is found: whoever moved it before may have ended at any instant. Pure.
///
/// Only two steps remove anything: `goBack` a dormant copy, while the namespace lives in the source or was removed there for good;
/// and `clearUp` what is left in the source, where the target's lives and has all of it.
public enum MoveMachine {
    /// What the administrator wants.
    public enum Wish: Sendable, CaseIterable {
        case move
        case abort
    }

    /// The next step. Each leads to facts from which another one follows, until `done`.
    public enum Step: Sendable, Hashable {
        /// Writes down that the namespace moves.
        case begin
        /// Writes down once more that the namespace moves: the home has forgotten it, and the copy says it.
        case adopt
        /// Makes an empty copy, which nobody works on.
        case makeCopy
        /// Copies what has changed, until little does; then fences, copies the rest and leaves the source.
        case follow
        /// Has the copy live.
        case arrive
        /// Has the home say that it lives in the target.
        case change
        /// Throws away what is left in the source, and the record.
        case clearUp
        /// Throws away the record; there is nothing to clear up.
        case forget
        /// Throws away the dormant copy, and the record.
        case goBack
        case done
        /// Nothing may be done before somebody has looked.
        case refuse(Reason)
    }

    public enum Reason: Sendable, Hashable, CaseIterable {
        /// The source has no such namespace.
        case unknown
        /// The target has another namespace of that name.
        case nameTaken
        /// The target has a copy of a move that the home does not know.
        case copyOfAnotherMove
        /// The source has gone back to a backup: the copy has entries that it lacks.
        case copyIsAhead
        /// The source's log was shortened to behind where the copy is: nobody can tell what the copy lacks.
        case logShortened
        /// The source has let it go, and the target has not what it had said it kept. All rows are still in the source.
        case targetLostIt
        /// The source knows nothing of it any more; the copy, if there is one, may be the only one.
        case sourceLostIt
        /// The source has let it go once, and has it again since it went back to a backup.
        case livesInBoth
        /// It has left already: it can only go on.
        case tooLateToAbort
        /// What is found fits no move.
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
        // That it lives there says that the source had let it go.
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
        // The target alone went back to just before it arrived.
        case (.former, .dormant(_, isWhole: true)): goingOn(wish, facts)
        case (.former, _): .refuse(.targetLostIt)
        case (.unknown, .arrived): wish == .move ? .forget : .refuse(.tooLateToAbort)
        case (.living, .arrived): .refuse(.livesInBoth)
        default: .refuse(.unclear)
        }
    }
}
