import TestSupport
import Tree
import Wire

@testable import ClientCore

/// Connections that are lost at any moment, and reopened.
extension SyncModel {
    /// Loses the connection. Messages to the client are lost, and so are its requests except writes, which are sent
    /// again. The server has already executed a part of the sent requests. Transactions that were sent end, as their
    /// outcome is unknown.
    mutating func loseConnection() {
        let sent = random.below(requests.count + 1)
        log.append("the connection is lost, \(sent) of \(requests.count) requests were sent")
        for request in requests.prefix(random.below(sent + 1)) { _ = server.perform(request, refuses: random.oneIn(4)) }
        let unsent = requests.dropFirst(sent).filter(\.isTransaction)
        let lost = sentTransactions.filter { id in !unsent.contains { $0.number == id.rawValue } }
        server.disconnect()
        // Missed changes are applied once all of them have arrived.
        for (index, listen) in received.enumerated() where !reported.contains(listen.number) {
            if let before = after[listen.number] { received[index].node = before.node }
        }
        // Data that one listen received of a state is in the store, and shared with listens that did not receive it.
        if isWithinState { complete = [] }
        (messages, isWithinState, isConnected, reported, same) = ([], false, false, [], [:])
        (messageSeqs, after) = ([], [:])
        // Plain writes are sent again in order, among the unsent requests.
        requests = (pending.map { .write($0) } + unsent).sorted { ($0.number ?? 0) < ($1.number ?? 0) }
        check(everything: false)
        for id in lost.sorted() { answer(id, .lost) }
    }

    /// Reconnects: sends all active listens with the hashes of the present data, and repeats unanswered writes.
    mutating func connect() {
        log.append("connects")
        isConnected = true
        for listen in received {
            hashes[listen.number] = hash(of: listen.spec)
            bareListens.sent(listen.spec, tag: listen.tag, isComplete: hashes[listen.number] != nil)
            let answer = complete.contains(listen.number) ? random.below(3) : 0
            resumable[listen.number] = answer == 1 ? listen.node : nil
            // The server sends all writes since, so the client must have all data up to that position.
            after[listen.number] = answer == 2 && hashes[listen.number] != nil ? (receivedSeq, listen.node) : nil
            client.sent(listen.spec, tag: listen.tag, resumes: after[listen.number] != nil)
        }
        // Data sent to the first listen is in the store, and shared with the listens that are not answered yet.
        complete = []
        requests = received.map { .listen($0.spec, $0.tag, $0.number) } + requests.filter { $0.number != nil }
    }

    /// Returns the hash with which a listen is sent; nil if the query's data is incomplete.
    func hash(of spec: QuerySpec) -> String? {
        let value = client.serverValue(of: spec)
        guard value.isComplete else { return nil }
        return (spec.loadsAllData ? value.node : value.node.withoutPriority).hash
    }
}
