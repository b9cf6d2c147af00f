import ClientCore
import Tree
import Wire

/// Submitting writes, and what needs the committed tree.
extension FollowMachine {
    mutating func submit(_ operation: Tree.Operation, _ path: Path, _ changes: [Change], now: Int64) {
        let size = changes.reduce(64) { $0 + $1.path.byteCount + $1.value.submittedBytes }
        submit(operation, path, .changes(changes), byteCount: size, now: now)
    }

    private mutating func submit(
        _ operation: Tree.Operation, _ path: Path, _ content: FollowWrite.Content, byteCount: Int, now: Int64
    ) {
        lastNumber += 1
        let write = FollowWrite(
            number: lastNumber, operation: operation, path: path, content: content, byteCount: byteCount,
            receivedAt: now)
        unanswered.append(write)
        // A failed write goes first again, and this one after it.
        guard !isRecovering else { return }
        send(write)
    }

    private mutating func send(_ write: FollowWrite) {
        inFlight += 1
        bytesInFlight += write.byteCount
        if write.operation == .resync { resyncsInFlight += 1 }
        effects.append(.submit(write))
    }

    /// Submits the upstream's rules.
    mutating func adopt(rules: [UInt8], now: Int64) {
        guard resyncsInFlight == 0 else {
            waitingRules = rules
            return
        }
        submit(.rules, .root, .rules(rules), byteCount: rules.count, now: now)
    }

    /// Accepts the outcome of a submitted write.
    mutating func answered(_ number: Int64, _ outcome: FollowOutcome, now: Int64) {
        guard let index = unanswered.firstIndex(where: { $0.number == number }) else {
            guard let index = abandoned.firstIndex(where: { $0.number == number }) else { return }
            landed(abandoned.remove(at: index))
            return readPositionIfNeeded()
        }
        let write = unanswered[index]
        landed(write)
        switch outcome {
        case .committed(let seq):
            unanswered.remove(at: index)
            committed(write, seq, now: now)
            if write.operation == .resync, connection.isConnected { updateState() }
        case .refused(let reason):
            isRecovering = true
            // The write can never be applied; everything after it would be applied to another tree.
            counts.rulesEnded += Int64(unanswered[index...].count { $0.operation == .rules })
            abandoned += unanswered[(index + 1)...]
            unanswered.removeSubrange(index...)
            violation("The namespace can't store a message for \(write.path): \(reason)", now: now)
        case .failed(let reason):
            isRecovering = true
            enter(.databaseAway(reason: reason))
        }
        if resyncsInFlight == 0, let rules = waitingRules {
            waitingRules = nil
            adopt(rules: rules, now: now)
        }
        readPositionIfNeeded()
    }

    /// Counts the outcome of a write.
    private mutating func landed(_ write: FollowWrite) {
        inFlight -= 1
        bytesInFlight -= write.byteCount
        if write.operation == .resync { resyncsInFlight -= 1 }
    }

    private mutating func readPositionIfNeeded() {
        guard isRecovering, inFlight == 0, !isReadingPosition else { return }
        isReadingPosition = true
        effects.append(.readPosition)
    }

    private mutating func committed(_ write: FollowWrite, _ seq: Int64?, now: Int64) {
        counts.entries += 1
        counts.lagMilliseconds = now - write.receivedAt
        if write.operation == .rules { counts.rulesEnded += 1 }
        if write.operation == .resync {
            counts.resyncs += 1
            if let seq { counts.lastResyncSeq = seq }
        }
    }

    /// Accepts the number of the last committed message, after `readPosition`.
    mutating func positionFound(_ position: Int64, now: Int64) {
        guard isReadingPosition else { return }
        isReadingPosition = false
        isRecovering = false
        abandoned = []
        for write in unanswered where write.number <= position { committed(write, nil, now: now) }
        // A refused message leaves a gap in the numbers: the next one follows the position.
        lastNumber = position
        let again = unanswered.filter { $0.number > position }
        unanswered = []
        for write in again {
            submit(write.operation, write.path, write.content, byteCount: write.byteCount, now: write.receivedAt)
        }
        if connection.isConnected {
            updateState()
        } else if resumesAt == nil {
            enter(.waiting(reason: "The connection ended"))
        }
    }

    // MARK: The committed tree

    /// Accepts the namespace's committed tree. Called when `wantsRoot` and no write is in flight.
    mutating func rootFound(_ root: Node, now: Int64) {
        guard wantsRoot, inFlight == 0 else { return }
        while !differing.isEmpty {
            submitDifference(of: differing.removeFirst(), root, now: now)
            // Everything else refers to the tree after the difference.
            guard inFlight == 0 else { return updateState() }
        }
        for part in oversized { split(part, part.keys(in: root), mayAsk: true, now: now) }
        oversized.removeAll { $0 != asked }
        if asked != nil { oversized = [] }
        // Splitting may have added listens, and differences concern other parts than the listens.
        let requests = listens
        listens = []
        for request in requests { send(request, root) }
        if connection.isConnected { updateState() }
        drain(now: now)
    }

    private mutating func submitDifference(of part: FollowPart, _ root: Node, now: Int64) {
        let new: Node
        let operation: Tree.Operation
        switch parts[part] {
        case .answered(let node): (new, operation) = (node, .resync)
        case .replaced(let node): (new, operation) = (node, .upstream)
        default: return
        }
        parts[part] = .live
        let changes = part.changes(from: root[part.path], to: new)
        if operation == .resync { effects.append(.log(.synchronized(entries: changes.isEmpty ? 0 : 1))) }
        guard !changes.isEmpty else { return }
        submit(operation, part.path, changes, now: now)
    }

    /// Sends a listen with the hashes of the committed tree. The upstream then sends only what differs.
    private mutating func send(_ request: ListenRequest, _ root: Node) {
        guard let part = plan.parts.first(where: { $0.spec == request.spec }) else { return }
        let view = part.view(of: root)
        parts[part] = .synchronizing(part.isRange ? view : root[part.path])
        let compound = !part.isRange && view.rowCount > 1 ? CompoundHash(ofLarge: view) : nil
        for text in request.messages(hash: view.hash, compound: compound) {
            effects.append(.connection(.send(text)))
        }
    }

    // MARK: Splitting

    private mutating func split(_ part: FollowPart, _ keys: [Key], mayAsk: Bool, now: Int64) {
        guard plan.parts.contains(part) else { return }
        if keys.isEmpty, mayAsk, asked == nil {
            asked = part
            return effects.append(.findKeys(part))
        }
        do throws(FollowPlan.SplitError) {
            let new = try plan.split(part, at: keys)
            parts[part] = nil
            tags = tags.filter { $0.value != part }
            connection.unlisten(part.spec, tag: nil, now: now)
            effects += [.log(.split(part, into: new.count)), .planChanged]
            for part in new { listen(part, now: now) }
        } catch {
            let reason =
                switch error {
                case .indivisible: "\(part) is larger than the upstream sends at once, and has no children to split"
                case .tooManyParts: "The upstream refuses parts of every size"
                }
            refuse(part, .tooLarge(reason: reason), after: settings.refusalPause, now: now)
        }
    }

    /// Accepts the keys that the upstream has at a part's path, after `findKeys`.
    mutating func keysFound(_ part: FollowPart, _ keys: [Key], now: Int64) {
        guard asked == part else { return }
        asked = nil
        split(part, keys.filter { !part.isRange || part.includes($0) }.sorted(), mayAsk: false, now: now)
        drain(now: now)
    }

    /// Handles that the upstream did not list its keys. The part is tried again later.
    mutating func keysFailed(_ part: FollowPart, _ reason: String, now: Int64) {
        guard asked == part else { return }
        asked = nil
        refuse(
            part,
            .tooLarge(reason: "\(part) is larger than the upstream sends at once, and its keys are unknown: \(reason)"),
            after: settings.refusalPause, now: now)
    }
}

extension CompoundHash {
    /// The hashes of a value that is large enough for them: more than 1 kB, like those of the SDKs.
    init?(ofLarge node: Node) {
        guard node.rowCount > 8 || node.submittedBytes > 1_024 else { return nil }
        self.init(of: node)
    }
}

extension Node {
    /// The approximate size of a submitted value: its rows and the text of a leaf.
    var submittedBytes: Int {
        switch self {
        case .string(let text): text.utf8.count
        case .prioritized(let leaf): leaf.value.submittedBytes + 16
        case .branch(let branch):
            branch.rowCount > 1_000
                ? branch.rowCount * 48
                : branch.children.reduce(0) { $0 + $1.key.byteCount + $1.node.submittedBytes }
        default: 8
        }
    }
}

extension FollowPart {
    /// Returns the changes that turn the part's value into another, with paths from the root.
    ///
    /// - Parameters:
    ///   - old: the present node at the part's path.
    ///   - new: the part's new value. For a range, it has only children in the range.
    func changes(from old: Node, to new: Node) -> [Change] {
        let changes: [Change]
        if !isRange {
            changes = TreeDifference.changes(from: old, to: new)
        } else if old.isLeaf {
            // A leaf has no children in any range. The first range removes it, unless another range has set children.
            if new.isNull { return start == nil ? [Change(path: path, value: .null)] : [] }
            changes = TreeDifference.changes(from: .null, to: new, keysFrom: nil, through: nil)
        } else {
            changes = TreeDifference.changes(from: restricted(old), to: new, keysFrom: nil, through: nil)
        }
        return changes.map { Change(path: path.appending($0.path), value: $0.value) }
    }
}
