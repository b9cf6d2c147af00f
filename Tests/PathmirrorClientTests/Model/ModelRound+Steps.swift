import ClientCore
import Foundation
import TestSupport
import Tree

@testable import PathmirrorClient

/// The random steps of a round.
extension ModelRound {
    func step() async throws {
        figures.steps += 1
        let client = random.pick(clients)
        let roll = random.below(100)
        switch roll {
        case 0..<16: set(client)
        case 16..<26: update(client)
        case 26..<30: remove(client)
        case 30..<34: setPriority(client)
        case 34..<40: count(client)
        case 40..<43: push(client)
        case 43..<48: forbidden(client)
        case 48..<54: countByTransaction(client)
        case 54..<60: transact(client)
        case 60..<70: listen(client)
        case 70..<75: problems += client.unlisten(&random)
        case 75..<77: client.reference(randomListenPath()).keepSynced(random.oneIn(2))
        case 77..<81: atDisconnect(client)
        case 81..<86: connection(client)
        case 86..<88: try await restart(client)
        case 88..<91: read(client)
        case 91: purge(client)
        default: try administrate()
        }
        if plan.hasFaults, random.oneIn(6) { try await fail(random.pick(clients)) }
        if random.oneIn(3) { try await Task.sleep(for: .microseconds(random.below(20_000))) }
    }

    // MARK: Choosing

    private func openPath(_ depth: ClosedRange<Int>) -> Path {
        let keys = (0..<(depth.lowerBound + random.below(depth.count))).map { _ in
            Key(random.pick(["a", "b", "c", "1", "10", "x y"]))
        }
        return Path(base.keys + [ModelPaths.open] + keys)
    }

    func randomListenPath() -> Path {
        if random.oneIn(6) {
            return random.pick([
                base, base.appending(ModelPaths.pair), base.appending(ModelPaths.hits),
                base.appending(ModelPaths.count),
            ])
        }
        return openPath(0...2)
    }

    /// Returns a random query. There is no query for half of the pair: in a client's file one value could then be newer
    /// than the other, and would be shown until the server answers (`TimesOfLoadingTests`).
    func randomQuery(at path: Path) -> PlainQuery {
        let query = PlainQuery(&random)
        return path.last == ModelPaths.pair ? PlainQuery() : query
    }

    private func leaf() -> Node {
        random.pick([.int(1), .int(2), .int(3), .double(1.5), .bool(true), .bool(false), .string("x"), .string("b")])
    }

    private func priority() -> Node {
        random.oneIn(5) ? random.pick([.int(1), .int(2), .string("p")]) : .null
    }

    /// - Parameter mark: the text of a child that identifies the write, if the node has children.
    private func node(_ depth: Int, mark: String) -> Node {
        if depth == 0 { return leaf().withPriority(priority()) }
        var children = (0..<random.below(5)).map { _ in
            (Key(random.pick(["a", "b", "c", "n", "1", "10", "2"])), node(random.below(depth), mark: mark))
        }
        children.append((Key("m"), .string(mark)))
        return Node(children: children, priority: priority())
    }

    // MARK: Plain writes

    /// Begins an item of the journal and returns the completion that ends it.
    private func begin(
        _ client: ModelClient, _ what: String, identity: String? = nil, isForbidden: Bool = false,
        kind: WriteJournal.Kind = .write
    ) -> ((any Error)?, DatabaseReference) -> Void {
        let (journal, losses) = (journal, client.lossesNow)
        let item = journal.begin(
            kind, of: client.number, what, identity: identity, isForbidden: isForbidden, losses: losses())
        story.append("\(client.number) \(what)")
        return { error, _ in
            // The completion runs when the app ends; `clientEnded` then records whether the write is kept.
            if kind != .transaction, (error as? DatabaseError)?.code == .disconnected { return }
            journal.end(item, Self.outcome(error), losses: losses())
        }
    }

    private static func outcome(_ error: (any Error)?) -> WriteJournal.Outcome {
        guard let error else { return .done }
        switch (error as? DatabaseError)?.code {
        case .writeCanceled, .disconnected: return .unknown
        case let code?: return .refused(code)
        case nil: return .refused(.unknown)
        }
    }

    private func set(_ client: ModelClient) {
        let path = random.oneIn(15) ? openPath(0...0) : openPath(1...3)
        let mark = journal.nextMark(.write)
        let node = random.oneIn(3) ? leaf().withPriority(priority()) : node(2, mark: mark)
        let identity = node.isBranch ? nil : LogLine.content([(path, node)])
        let done = begin(client, "sets \(path) to \(PlainText.json(node))", identity: identity)
        let bare = node.withoutPriority
        if random.oneIn(2), !node.priority.isNull {
            let priority = node.priority.foundationValue()
            client.reference(path).setValue(bare.foundationExport(), andPriority: priority, withCompletionBlock: done)
        } else {
            client.reference(path).setValue(node.foundationExport(), withCompletionBlock: done)
        }
    }

    private func update(_ client: ModelClient) {
        let mark = journal.nextMark(.write)
        var values: [AnyHashable: Any] = ["marks/u\(client.number)": mark]
        if random.oneIn(3) {
            lastPair += 1
            values["pair/l"] = lastPair
            values["pair/r"] = lastPair
        }
        var written: [Path] = []
        for _ in 0..<(1 + random.below(3)) {
            let path = openPath(1...3)
            guard !written.contains(where: { $0.contains(path) || path.contains($0) }) else { continue }
            written.append(path)
            let node = random.oneIn(4) ? .null : node(random.below(2), mark: mark)
            values["\(path.relative(to: base))".dropFirst().description] =
                random.oneIn(9) ? ServerValue.timestamp() : node.foundationExport() as Any
        }
        client.reference(base).updateChildValues(
            values, withCompletionBlock: begin(client, "updates \(written) \(mark)"))
    }

    private func remove(_ client: ModelClient) {
        let path = openPath(1...3)
        let done = begin(client, "removes \(path)", identity: LogLine.content([(path, .null)]))
        client.reference(path).removeValue(completionBlock: done)
    }

    private func setPriority(_ client: ModelClient) {
        let path = openPath(1...2)
        let priority = random.pick([Node.null, .int(1), .int(2), .string("p")])
        let done = begin(
            client, "sets the priority of \(path) to \(PlainText.json(priority))",
            identity: LogLine.content([(path.appending(.priority), priority)]))
        client.reference(path).setPriority(priority.foundationValue(), withCompletionBlock: done)
    }

    private func count(_ client: ModelClient) {
        let mark = journal.nextMark(.write)
        client.reference(base).updateChildValues(
            ["hits": ServerValue.increment(1), "marks/h\(client.number)": mark],
            withCompletionBlock: begin(client, "increments \(mark)"))
    }

    private func push(_ client: ModelClient) {
        let mark = journal.nextMark(.write)
        let ref = client.reference(openPath(0...1)).childByAutoId()
        ref.setValue(
            ["n": random.below(3), "m": mark, "at": ServerValue.timestamp()] as [String: Any],
            withCompletionBlock: begin(client, "pushes \(ref.path)"))
    }

    /// Makes a write that the rules refuse.
    private func forbidden(_ client: ModelClient) {
        let mark = journal.nextMark(.write)
        let done = begin(client, "does what is forbidden \(mark)", isForbidden: true)
        switch random.below(3) {
        case 0:
            client.reference(openPath(1...2)).setValue(["a": "no", "m": mark], withCompletionBlock: done)
        case 1:
            client.reference(base.appending(ModelPaths.shut)).setValue(mark, withCompletionBlock: done)
        default:
            client.reference(base).updateChildValues(
                ["open/a/b": mark, "shut/x": 1, "pair/l": 0, "pair/r": 0], withCompletionBlock: done)
        }
    }

    // MARK: Transactions

    private func transactionEnd(
        _ client: ModelClient, _ what: String, identity: String? = nil, isForbidden: Bool = false
    ) -> ((any Error)?, Bool, DataSnapshot?) -> Void {
        let done = begin(client, what, identity: identity, isForbidden: isForbidden, kind: .transaction)
        let ref = client.reference(base)
        return { error, isCommitted, _ in
            let ended = error ?? (isCommitted ? nil : DatabaseError(.overriddenBySet, "not committed"))
            done(ended, ref)
        }
    }

    private func countByTransaction(_ client: ModelClient) {
        client.reference(base.appending(ModelPaths.count)).runTransactionBlock(
            { data in
                data.value = (data.value as? Int ?? 0) + 1
                return .success(withValue: data)
            }, andCompletionBlock: transactionEnd(client, "counts", identity: "count"),
            withLocalEvents: !random.oneIn(3))
    }

    private func transact(_ client: ModelClient) {
        let mark = journal.nextMark(.transaction)
        let isForbidden = random.oneIn(6)
        let path = openPath(1...2)
        // Transactions at one path may be sent together: each has a child of its own.
        let key = "t\(journal.items.count)"
        client.reference(path).runTransactionBlock(
            { data in
                data.childData(byAppendingPath: key).value = mark
                if isForbidden { data.childData(byAppendingPath: "f").value = "no" }
                return .success(withValue: data)
            }, andCompletionBlock: transactionEnd(client, "transacts at \(path) \(mark)", isForbidden: isForbidden),
            withLocalEvents: !random.oneIn(3))
    }

    // MARK: Others

    private func listen(_ client: ModelClient) {
        guard client.watches.count < 12 else { return }
        let kinds = random.pick([EventKinds.value, .allChildren, [.value, .allChildren], [.value, .allChildren]])
        var path = randomListenPath()
        if random.oneIn(25) { path = Path([Key("secret"), Key("\(random.below(3))")]) }
        let watch = Watch(path: path, query: randomQuery(at: path), kinds: kinds)
        story.append("\(client.number) listens: \(watch)")
        client.listen(watch)
    }

    private func atDisconnect(_ client: ModelClient) {
        let mark = journal.nextMark(.onDisconnect)
        let gone = base.appending(ModelPaths.gone)
        let ref = client.reference(gone).child("c\(client.number)-\(journal.items.count)")
        switch random.below(5) {
        case 0:
            ref.onDisconnectUpdateChildValues(
                ["a/m": mark, "at": ServerValue.timestamp()],
                withCompletionBlock: begin(client, "at its end updates \(ref.path) \(mark)", kind: .onDisconnect))
        case 1:
            // The result of these operations is not checked, as other clients write there.
            client.reference(openPath(1...2)).onDisconnectSetValue(["m": "end"])
            client.reference(openPath(1...3)).onDisconnectRemoveValue()
        case 2:
            story.append("\(client.number) takes back what it wants at its end")
            journal.rollBackOperations(of: client.number)
            client.reference(gone).cancelDisconnectOperations()
        default:
            ref.onDisconnectSetValue(
                mark, withCompletionBlock: begin(client, "at its end sets \(ref.path) \(mark)", kind: .onDisconnect))
        }
    }

    private func connection(_ client: ModelClient) {
        client.setOffline(!client.isOffline)
        story.append("\(client.number) goes \(client.isOffline ? "offline" : "online")")
    }

    private func restart(_ client: ModelClient) async throws {
        story.append("\(client.number) restarts")
        figures.restarts += 1
        note(client)
        problems += await client.end(startsAgain: true)
        if random.oneIn(2) { connection(client) }
    }

    private func read(_ client: ModelClient) {
        let listened = randomListenPath()
        let query = randomQuery(at: listened).query(at: client.reference(listened))
        if random.oneIn(2) {
            query.getData { _, _ in }
        } else {
            query.observeSingleEvent(of: random.pick([.value, .childAdded])) { _ in }
        }
    }

    private func purge(_ client: ModelClient) {
        story.append("\(client.number) purges")
        journal.purge(of: client.number)
        client.database.purgeOutstandingWrites()
    }

    private func administrate() throws {
        switch random.below(4) {
        case 0:
            lastPair += 1
            let number = Node.int(Int64(lastPair))
            story.append("the administrator writes the pair \(lastPair)")
            try administrator.set(
                base.appending(ModelPaths.pair), Node(children: [(Key("l"), number), (Key("r"), number)]))
        case 1:
            let path = openPath(1...2)
            let values = [("a", node(1, mark: "admin")), ("c/b", leaf())]
            story.append("the administrator updates \(path)")
            try administrator.update(path, values)
        default:
            let path = openPath(1...3)
            let node = random.oneIn(4) ? .null : node(2, mark: "admin")
            story.append("the administrator sets \(path) to \(PlainText.json(node))")
            try administrator.set(path, node)
        }
    }
}
