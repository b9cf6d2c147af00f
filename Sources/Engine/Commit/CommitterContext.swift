import LogStore
import Postgres
import Runtime

/// The objects that one committer's thread works with.
struct CommitterContext {
    let core: EngineCore
    /// The number of the committer.
    let index: Int
    let stallMeters: StallMeter
    let connection: CommitterConnection
    let follower: NamespaceFollower
    let answers: WriteAnswers
    /// Ends the committer's wait for the database when there is more work meanwhile.
    let wake: WakeHandle

    init(_ core: EngineCore, index: Int, wake: WakeHandle) {
        self.wake = wake
        self.core = core
        self.index = index
        stallMeters = core.stallMeters[index]
        connection = CommitterConnection(core, name: "\(BackendName.committerShort) \(index)")
        follower = NamespaceFollower(core, stallMeters)
        answers = WriteAnswers(core.metrics)
    }

    /// The circumstances of a failure that has just happened.
    var circumstances: CommitMachine.Circumstances {
        CommitMachine.Circumstances(
            now: Clock.monotonicMilliseconds, isDatabaseUp: core.health.isUp, isStopping: core.stopsNow)
    }

    /// Pauses before another attempt, for a random time so that batches that failed together do not retry together.
    func pauseBeforeRetry() { core.pause(milliseconds: 20 + Int64.random(in: 0...80)) }
}

/// The connection of one committer's or loader's thread, opened when needed.
final class CommitterConnection {
    private let core: EngineCore
    private let name: String
    private var current: LogConnection?

    /// - Parameter name: the connection's name in the database.
    init(_ core: EngineCore, name: String) {
        self.core = core
        self.name = name
    }

    /// False until the connection is opened (again).
    var isThere: Bool { current != nil }

    /// Returns the connection; opens another one if it is closed.
    ///
    /// - Parameter deadline: the monotonic millisecond after which the connection is no longer needed.
    func get(by deadline: Milliseconds? = nil) throws(LogStoreError) -> LogConnection {
        if let current, current.isOpen { return current }
        current = nil
        do throws(LogStoreError) {
            let new = try core.connect(name, by: deadline)
            // The database is reported as available only after its heads have been compared with the snapshots in
            // memory.
            if !core.health.isUp { try core.look(new, isNew: true) }
            current = new
            return new
        } catch {
            core.databaseFailed(error)
            throw error
        }
    }

    /// Closes the connection after a loss. The next connection shows whether the database is lost, too: a connection
    /// that dies late, after the others have found the database available again, must not mark it as down.
    ///
    /// - Parameter lost: the lost connection, if another one may have been opened since; nil: the present one.
    func drop(_ lost: LogConnection? = nil) {
        lost?.close()
        guard lost == nil || lost === current else { return }
        current?.close()
        current = nil
    }

    /// Whether the connection works although the database was found to be down. A batch sent over a dead connection has
    /// an unknown outcome, which is worse for its writers than a rejection.
    func answers() -> Bool {
        guard let current else { return false }
        do throws(LogStoreError) {
            _ = try current.heads([])
            return true
        } catch {
            drop()
            return false
        }
    }
}
