import LogStore
import Postgres
import Runtime

/// A save that waits for the lease's thread.
struct SavingOperations: Sendable {
    let save: SessionSave
    /// The lease under which the session began.
    let lease: LeaseNumber
    let completion: @Sendable (SaveOutcome) -> Void

    var known: SaveMachine.Save { SaveMachine.Save(number: save.number, lease: lease) }
}

/// Saves sessions' onDisconnect operations; `SaveMachine` decides the outcome of each save. Belongs to the lease's
/// thread.
final class DisconnectSaver {
    private let core: EngineCore
    private let leases: GatewayLeases
    private let leased: LeasedConnection
    private var machine: SaveMachine
    /// The save whose answer was lost.
    private var unanswered: SavingOperations?

    init(_ core: EngineCore, _ leases: GatewayLeases, _ leased: LeasedConnection) {
        self.core = core
        self.leases = leases
        self.leased = leased
        machine = SaveMachine(patienceMilliseconds: core.settings.commitDeadlineMilliseconds)
    }

    /// Refuses a save without an attempt if the database was unavailable at the last attempt.
    func refusesAtOnce(_ saving: SavingOperations) -> Bool {
        guard machine.refusesAtOnce(isDatabaseAway: core.health.refusal != nil, now: Clock.monotonicMilliseconds) else {
            return false
        }
        saving.completion(.refused)
        return true
    }

    func couldNotBegin() { machine.couldNotBegin(now: Clock.monotonicMilliseconds) }

    func save(
        _ saving: SavingOperations, _ connection: LogConnection, _ lease: GatewayLease
    ) throws(LogStoreError) {
        if case .answer(let outcome) = machine.begin(saving.known, under: leases.current) {
            return saving.completion(outcome)
        }
        let result: LogConnection.SaveResult
        do throws(LogStoreError) {
            result = try connection.saveSession(saving.save, lease)
        } catch {
            failed(saving, error)
            throw error
        }
        let (outcome, isLeaseLost) = machine.answered(result)
        if isLeaseLost { leased.lost() }
        saving.completion(outcome)
    }

    private func failed(_ saving: SavingOperations, _ error: LogStoreError) {
        var wasRefused = false
        if case .database(let cause) = error { wasRefused = cause.sqlState != nil && !error.isConnectionLost }
        let outcome = machine.failed(saving.known, wasRefused: wasRefused, now: Clock.monotonicMilliseconds)
        if let outcome { return saving.completion(outcome) }
        unanswered = saving
        // The next connection takes the lease over. From then on, the database rejects the save if it still arrives.
        leased.disconnect()
    }

    /// Determines the outcome of the save whose answer was lost.
    func settle(_ lease: GatewayLease, _ connection: LogConnection) throws(LogStoreError) {
        guard let saving = unanswered, let verdict = machine.settling(under: leases.current) else { return }
        let outcome: SaveOutcome
        switch verdict {
        case .answer(let known):
            machine.settledAsOver()
            outcome = known
        case .send:
            let stored = saving.save.session
            let number = try connection.savedNumber(stored.namespace, stored.id, gateway: lease.gateway)
            outcome = machine.settled(number: number)
        }
        unanswered = nil
        saving.completion(outcome)
    }

    /// Reports an unknown outcome for the unanswered save once its client has waited long enough for the database.
    func giveUpUnanswered() {
        guard let saving = unanswered, machine.givesUp(now: Clock.monotonicMilliseconds) else { return }
        unanswered = nil
        saving.completion(.unknown)
    }
}
