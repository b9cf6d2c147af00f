import LogStore
import Runtime

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
