import LogStore
import Postgres
import Runtime

/// What one committer's thread works with, whatever it does.
struct CommitterContext {
    let core: EngineCore
    /// Which of the committers it is.
    let index: Int
    let stretches: StretchMeter
    let connection: CommitterConnection
    let follower: NamespaceFollower
    let answers: WriteAnswers
    /// Ends its wait for the database, when there is more to be done meanwhile.
    let wake: WakeHandle

    init(_ core: EngineCore, index: Int, wake: WakeHandle) {
        self.wake = wake
        self.core = core
        self.index = index
        stretches = core.stretches[index]
        connection = CommitterConnection(core, name: "\(BackendName.committerShort) \(index)")
        follower = NamespaceFollower(core, stretches)
        answers = WriteAnswers(core.metrics)
    }

    /// What counts when something has failed just now.
    var circumstances: CommitMachine.Circumstances {
        CommitMachine.Circumstances(
            now: Clock.monotonicMilliseconds, isDatabaseUp: core.health.isUp, isStopping: core.stopsNow)
    }

    /// Waits before another try, each time for another while, so that those who failed together don't come back together.
    func pauseBeforeRetry() { core.pause(milliseconds: 20 + Int64.random(in: 0...80)) }
}

/// The connection of one committer's or loader's thread, opened when it is needed.
final class CommitterConnection {
    private let core: EngineCore
    private let name: String
    private var current: LogConnection?

    /// - Parameter name: what it calls itself in the database.
    init(_ core: EngineCore, name: String) {
        self.core = core
        self.name = name
    }

    /// False until it is opened (again).
    var isThere: Bool { current != nil }

    /// The connection; opens another one where it is closed.
    ///
    /// - Parameter deadline: the monotonic millisecond at which nobody cares any more.
    func get(by deadline: Milliseconds? = nil) throws(LogStoreError) -> LogConnection {
        if let current, current.isOpen { return current }
        current = nil
        do throws(LogStoreError) {
            let new = try core.connect(name, by: deadline)
            // Nobody is told that it is back before it has been compared with what is here.
            if !core.health.isUp { try core.look(new, isNew: true) }
            current = new
            return new
        } catch {
            core.databaseFailed(error)
            throw error
        }
    }

    /// This connection is gone. Whether the database is, the next one will tell: a connection that dies late, after everybody
    /// else has found the database back, must not call it down again.
    ///
    /// - Parameter lost: the connection that is meant, where another one may have been opened since; nil: whatever there is.
    func drop(_ lost: LogConnection? = nil) {
        lost?.close()
        guard lost == nil || lost === current else { return }
        current?.close()
        current = nil
    }

    /// Whether it works although the database was found to be down: a batch that is sent into a dead connection has an unknown
    /// outcome, which nobody needs to be told who can be refused.
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
