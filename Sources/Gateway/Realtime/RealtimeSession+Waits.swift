import Engine
import HTTPServer
import Rules
import Tree
import Wire

extension RealtimeSession {
    /// The most waits of one client that are under way: a client needs one for each entry that it is told of elsewhere.
    private static let maxWaits = 16

    /// Answers once this gateway has told the client all that its listens have to be told up to an entry, or when that takes
    /// too long.
    ///
    /// How far the log is, is only told to who may read something: whoever has a listen, or may read the place that is
    /// named (docs/security.md, "Who can learn what").
    func wait(_ number: Int64, _ seq: Int64, _ path: Path?) {
        guard isExtended else { return answer(number, "failure", .text("Unknown action")) }
        guard mayWait(path) else { return answer(number, "permission_denied", .text("Permission denied")) }
        guard waits.count < Self.maxWaits else {
            return answer(number, "unavailable", .text("Too many waits are under way."))
        }
        let milliseconds = settings.minSeqWaitMilliseconds
        let timer = loop.schedule(afterMilliseconds: milliseconds) { [weak self] in self?.giveUpWait(number) }
        waits.updateValue(LogWait(seq: seq, path: path, timer: timer), forKey: number)?.timer.cancel()
        namespace.whenTold(seq, within: Int64(milliseconds)) { [home = host.home, id] in
            // Behind the changes, which were posted to this loop before.
            home.post(to: id) { $0.reached(number) }
        }
    }

    private func mayWait(_ path: Path?) -> Bool {
        if login.context.isAdmin || !listens.isEmpty { return true }
        return path.map { mayRead($0, nil, namespace.snapshot) } ?? false
    }

    private func reached(_ number: Int64) {
        guard let wait = waits.removeValue(forKey: number) else { return }
        wait.timer.cancel()
        guard mayWait(wait.path) else { return answer(number, "permission_denied", .text("Permission denied")) }
        // Behind the values of listens that had to be conflated.
        answerWrite(number, "ok", .none, at: LogMark(seq: wait.seq))
    }

    private func giveUpWait(_ number: Int64) {
        guard waits.removeValue(forKey: number) != nil else { return }
        answer(number, "unavailable", .text("This gateway has not come to that entry yet."))
    }

    /// The session is over.
    func cancelWaits() {
        for wait in waits.values { wait.timer.cancel() }
        waits.removeAll()
    }
}
