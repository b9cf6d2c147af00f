import LogStore
import Runtime

/// The state of a batch between two effects of its machine. Committers pass it to one another.
///
/// A batch begins as the writes that a committer takes from the namespace's `WriteQueue`. The machine returns one
/// effect after another; `BatchCommit` executes each effect and keeps the result here.
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
/// `CommitChain` sends batches of one namespace one after another, `SharedTransaction` sends batches of several namespaces in
/// one transaction. A batch that `SharedTransaction` can not finish moves to `CommitterJobs` as this value, and the next free
/// committer continues with it.
struct BatchProgress: Sendable {
    /// The evaluated writes, and the batch that they form.
    struct Evaluated: Sendable {
        let batch: Batch
        let outcomes: [WriteOutcome]
        /// The state after the batch, and the steps to it, if listeners need them.
        let snapshot: Snapshot
        let steps: [Step]
        let keepsSteps: Bool
        let timestamp: Int64
        let done: DoneWrites
        /// The upstream messages with which the evaluation began.
        let messages: UpstreamMessages
        let repeatedWrites: Int
        /// Whether named writes were refused that may have been executed when they arrived first.
        let refusesNamed: Bool

        init(_ batch: Batch, _ evaluation: Evaluation, _ messages: UpstreamMessages) {
            self.messages = messages
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
    /// The snapshot for the evaluation if it is not published yet: the state after a batch that is being committed.
    var base: Snapshot?
    var machine: CommitMachine
    /// The next effect; nil at the end.
    var next: CommitMachine.Effect?
    var current: Evaluated?
    /// The batches that the machine has kept as lost, by its numbers.
    var lost: [Evaluated] = []
    var error: LogStoreError?
    /// Whether the server reported a commit without its standby, which was then logged.
    var wasLocal = false
    /// Fences of upstream messages that the database has refused.
    var superseded: Set<[UInt8]> = []
    /// Whether the writes were answered with an unknown outcome.
    var isUnknown = false
    /// The commit time that the log has for the current batch; nil if unknown.
    var committedAt: Milliseconds?

    init(_ waiting: [WriteQueue.Waiting], in namespace: LiveNamespace, isContended: Bool, base: Snapshot? = nil) {
        self.base = base
        self.namespace = namespace
        self.waiting = waiting
        machine = CommitMachine(deadline: waiting.first?.deadline ?? 0, isContended: isContended)
        next = machine.start()
    }

    /// The batch from its beginning, for cases in which nothing was written for certain: nothing was sent, or a shared
    /// transaction was rolled back.
    var fromTheBeginning: BatchProgress { BatchProgress(waiting, in: namespace, isContended: false) }
}
