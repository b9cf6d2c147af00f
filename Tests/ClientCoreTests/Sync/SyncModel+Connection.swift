import TestSupport
import Tree
import Wire

@testable import ClientCore

/// A connection that is lost, at any moment, and made again.
extension SyncModel {
    /// What is on its way to the client is lost, and so is what the server is asked for but writes: those are sent again. Of what
    /// was sent the server has done a part already. Transactions that were sent end, as nobody can say whether they were done.
    mutating func loseConnection() {
        let sent = random.below(requests.count + 1)
        log.append("the connection is lost, \(sent) of \(requests.count) requests were sent")
        for request in requests.prefix(random.below(sent + 1)) { _ = server.perform(request, refuses: random.oneIn(4)) }
        let unsent = requests.dropFirst(sent).filter(\.isTransaction)
        let lost = sentTransactions.filter { id in !unsent.contains { $0.number == id.rawValue } }
        server.disconnect()
        // What was missed is taken when all of it is there.
        for (index, listen) in received.enumerated() where !told.contains(listen.number) {
            if let before = behind[listen.number] { received[index].node = before.node }
        }
        // What the one listen was told of a state is in the store, where others that were not told share it.
        if isWithinState { complete = [] }
        (messages, isWithinState, isConnected, told, same) = ([], false, false, [], [:])
        (messageSeqs, behind) = ([], [:])
        // Plain writes are sent again in their order, among what was not sent.
        requests = (pending.map { .write($0) } + unsent).sorted { ($0.number ?? 0) < ($1.number ?? 0) }
        check(everything: false)
        for id in lost.sorted() { answer(id, .lost) }
    }

    /// All that is still wanted is asked for, with the hash of what is there, and what is not answered is written again.
    mutating func connect() {
        log.append("connects")
        isConnected = true
        for listen in received {
            hashes[listen.number] = hash(of: listen.spec)
            bareListens.sent(listen.spec, tag: listen.tag, isComplete: hashes[listen.number] != nil)
            let answer = complete.contains(listen.number) ? random.below(3) : 0
            resumable[listen.number] = answer == 1 ? listen.node : nil
            // The server tells all that was written since, so that the client has to have all that was there.
            behind[listen.number] = answer == 2 && hashes[listen.number] != nil ? (receivedSeq, listen.node) : nil
            client.sent(listen.spec, tag: listen.tag, resumes: behind[listen.number] != nil)
        }
        // What the first of them is sent is in the store, where the others that are not answered yet share it.
        complete = []
        requests = received.map { .listen($0.spec, $0.tag, $0.number) } + requests.filter { $0.number != nil }
    }

    /// With which a listen is sent; nil where not all that it selects is known.
    func hash(of spec: QuerySpec) -> String? {
        let value = client.serverValue(of: spec)
        guard value.isComplete else { return nil }
        return (spec.loadsAllData ? value.node : value.node.withoutPriority).hash
    }
}
