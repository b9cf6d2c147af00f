import LogStore
import Runtime

/// A batch on its way, between two effects of its machine: what one committer hands to another.
///
/// A batch begins as the writes that a committer takes from the namespace's `WriteQueue`. The machine names one effect after
/// another; `BatchCommit` executes each effect and keeps the result here.
///
///     waiting: the writes, with the sinks that their outcomes go to
///        |
///        |  evaluate, on `base` or the namespace's snapshot
///        v
///     current: the `Batch` for the database, one outcome per write, the snapshot after the batch
///        |
///        |  send
///        +------------- connection lost -------------> lost[0], lost[1], ...
///        |                                                |
///        |  committed                                     |  found in the log
///        v                                                v
///     publish `current` to the listeners,              publish or answer by `lost[n]`;
///     then answer the writes                           not found: evaluate and send again
///
/// `CommitChain` sends batches of one namespace one after another, `JointCommit` sends batches of several namespaces in
/// one transaction. A batch that `JointCommit` can not finish moves to `CommitterJobs` as this value, and the next free
/// committer continues with it.
struct BatchProgress: Sendable {
    /// The writes as they were evaluated, and the batch that they become.
    struct Evaluated: Sendable {
        let batch: Batch
        let outcomes: [WriteOutcome]
        /// The state after the batch, and the way there, if anybody wants to know it.
        let snapshot: Snapshot
        let steps: [Step]
        let keepsSteps: Bool
        let timestamp: Int64
        let done: DoneWrites
        let repeatedWrites: Int
        /// Some were refused that may have been done when they came first.
        let refusesNamed: Bool

        init(_ batch: Batch, _ evaluation: Evaluation) {
            self.batch = batch
            outcomes = evaluation.outcomes
            snapshot = evaluation.snapshot
            steps = evaluation.steps
            keepsSteps = evaluation.keepsSteps
            timestamp = evaluation.timestamp
            done = evaluation.done
            repeatedWrites = evaluation.repeatedWrites
            refusesNamed = !evaluation.refusedNames.isEmpty
        }
    }

    let namespace: LiveNamespace
    let waiting: [WriteQueue.Waiting]
    /// What the batch is evaluated on where that is not published yet: the state after a batch that is being committed.
    var base: Snapshot?
    var machine: CommitMachine
    /// What is to be done next; nil at the end.
    var next: CommitMachine.Effect?
    var current: Evaluated?
    /// Those that the machine has kept, by its numbers.
    var lost: [Evaluated] = []
    var error: LogStoreError?
    /// The server has said that it has committed alone, and that was logged.
    var wasLocal = false
    /// The writes were answered by that nobody knows what became of them.
    var isUnknown = false
    /// When the current batch was committed, as the log says; nil where that is not known.
    var committedAt: Milliseconds?

    init(_ waiting: [WriteQueue.Waiting], in namespace: LiveNamespace, isContended: Bool, base: Snapshot? = nil) {
        self.base = base
        self.namespace = namespace
        self.waiting = waiting
        machine = CommitMachine(deadline: waiting.first?.deadline ?? 0, isContended: isContended)
        next = machine.start()
    }

    /// The same from the beginning, where for certain nothing was written: nothing was sent, or a transaction with others came to
    /// nothing.
    var fromTheBeginning: BatchProgress { BatchProgress(waiting, in: namespace, isContended: false) }
}
