/// What is found of a namespace that is to move, or was being moved when its mover ended.
public struct MoveFacts: Sendable, Equatable {
    /// How far the home says that the move has come; nil where it knows of none.
    public enum Record: Sendable, Equatable {
        case copying
        /// The home says that the namespace lives in the target now.
        case left
    }

    /// What the source has of it.
    public enum Source: Sendable, Equatable {
        /// It lives there.
        case living
        /// It has left on purpose.
        case former
        /// There is no trace of it.
        case unknown
    }

    /// What the target has of it.
    public enum Copy: Sendable, Equatable {
        case none
        /// Its last entry is one of the source's; it has all that the source had when it left.
        case there(isOfTheSource: Bool, isWhole: Bool)
    }

    public var record: Record?
    public var source: Source
    public var copy: Copy

    public init(record: Record?, source: Source, copy: Copy) {
        self.record = record
        self.source = source
        self.copy = copy
    }
}

/// Decides how a move goes on, or back, from whatever is found: whoever moved it before may have ended at any instant. Pure.
public enum MoveMachine {
    /// What the administrator wants.
    public enum Wish: Sendable, Equatable {
        case move
        case abort
    }

    /// The next step. Each leads to facts from which another one follows, until `done`.
    public enum Step: Sendable, Equatable {
        /// Writes down that the namespace moves.
        case begin
        /// Throws away what the target has, and copies all of it.
        case copyAnew
        /// Copies what has changed, until little does; then fences, copies the rest and leaves the source.
        case follow
        /// Has the home say that it lives in the target.
        case change
        /// Throws away what is left in the source, and the record.
        case clearUp
        /// Throws away what the target has, and the record.
        case goBack
        case done
        /// Nothing may be done before somebody has looked.
        case refuse(Reason)
    }

    public enum Reason: Sendable, Equatable {
        /// The source has let it go, and the target has not what it had said it kept. All rows are still in the source.
        case targetLostIt
        /// It lives in the target already, in part: it can only go on.
        case tooLateToAbort
        /// There is no such namespace.
        case unknown
    }

    public static func next(_ wish: Wish, _ facts: MoveFacts) -> Step {
        switch (facts.record, facts.source, facts.copy) {
        case (nil, .living, _): wish == .move ? .begin : .done
        case (nil, .former, _), (nil, .unknown, _): wish == .move ? .refuse(.unknown) : .done
        case (.copying, .living, _) where wish == .abort: .goBack
        case (.copying, .living, .there(isOfTheSource: true, _)): .follow
        case (.copying, .living, .none), (.copying, .living, .there): .copyAnew
        case (.copying, .former, .there(_, isWhole: true)): wish == .move ? .change : .refuse(.tooLateToAbort)
        case (.copying, .former, _): .refuse(.targetLostIt)
        case (.copying, .unknown, _): .goBack
        case (.left, _, .there(_, isWhole: true)): wish == .move ? .clearUp : .refuse(.tooLateToAbort)
        // The source has been cleared up: nothing tells any more what it had.
        case (.left, .unknown, .there): wish == .move ? .clearUp : .refuse(.tooLateToAbort)
        case (.left, _, _): .refuse(.targetLostIt)
        }
    }
}
