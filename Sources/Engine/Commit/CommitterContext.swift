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
