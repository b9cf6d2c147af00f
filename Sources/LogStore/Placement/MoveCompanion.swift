public import Postgres

/// A move's copy, and what it is of.
public struct MovingCopy: Sendable, Equatable {
    /// The move's id, by which the copy is told from others that had its id.
    public let move: String
    /// The namespace's ids in the two databases.
    public let sourceID: Int64
    public let targetID: Int64

    public init(move: String, sourceID: Int64, targetID: Int64) {
        self.move = move
        self.sourceID = sourceID
        self.targetID = targetID
    }
}

/// What moves along with a namespace although it is made of the log and not part of it: the tables of mirrors. Whatever is
/// interrupted here is called again by the mover that goes on.
public protocol MoveCompanion {
    /// Looks whether all of it can move, before anything is changed.
    ///
    /// - Throws: `misplaced`, with what is in the way.
    func check(sourceID: Int64) throws
    /// Makes in the target what the source has and the target has not, while clients write. The copy is dormant.
    ///
    /// - Parameter catchUp: brings the copy to where the source is.
    /// - Returns: whether there was anything to make.
    func prepare(_ copy: MovingCopy, catchUp: () throws -> Void) throws -> Bool
    /// Whether the target has what the source has; if so, that does not change until the source's transaction ends. Writers stand
    /// meanwhile.
    func hold(_ copy: MovingCopy, _ source: PostgresConnection) throws -> Bool
    /// Removes what was made for a copy that is still dormant.
    func goBack(_ copy: MovingCopy) throws
    /// Has what is in neither of the two databases follow the copy, which lives by now, and removes what the source has.
    func finish(_ copy: MovingCopy) throws
}

/// What was prepared is not what the source has now.
struct CompanionBehind: Error {}
