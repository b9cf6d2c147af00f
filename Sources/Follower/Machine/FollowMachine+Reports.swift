import ClientCore
import Tree
import Wire

/// Reports of the connection.
extension FollowMachine {
    mutating func handle(_ report: ConnectionReport, now: Int64) {
        switch report {
        case .connected: enter(.authenticating)
        case .signedIn, .signedOut:
            effects.append(.log(state == .following ? .tokenRenewed : .connected))
            updateState()
        case .changed(let event, let tag, _): changed(event, tag, now: now)
        case .ranges(let path, let merges, let tag, _): merged(path, merges, tag, now: now)
        case .listenCompleted(let spec, let tag, _, _): completed(part(spec, tag))
        case .listenRefused(let spec, let tag, let failure): refused(part(spec, tag), failure, now: now)
        case .disconnected(let reason): ended(reason, now: now)
        case .connectFailed(let reason, _): if resumesAt == nil, !isAuthProblem { enter(.waiting(reason: reason)) }
        case .signInFailed(let failure, _):
            enter(.unauthenticated(reason: "The upstream refused the credential: \(failure.text)"))
        case .tokenMissing(let reason):
            if state == .following { effects.append(.log(.tokenMissing(reason))) }
            if !connection.isConnected || state != .following { enter(.unauthenticated(reason: reason)) }
        case .shutDown(let reason): enter(.shutDown(reason: reason))
        case .note(let text): effects.append(.log(.note(text)))
        case .serverError(let text):
            if text.blamesSize { hasPayloadError = true }
            effects.append(.log(.note("the upstream reports an error: \(text)")))
        case .securityDebug, .writeAnswered, .onDisconnectAnswered, .getAnswered, .waitAnswered: break
        }
    }

    /// Whether the present state says more than that the connection failed.
    private var isAuthProblem: Bool {
        switch state {
        case .unauthenticated, .shutDown, .invalid, .overBudget: true
        default: false
        }
    }

    private func part(_ spec: QuerySpec, _ tag: ListenTag?) -> FollowPart? {
        if let tag { return tags[tag] }
        return plan.parts.first { $0.path == spec.path && !$0.isTagged }
    }

    /// The part without a tag that contains a path, or the part with the tag.
    private func part(for path: Path, _ tag: ListenTag?) -> FollowPart? {
        if let tag { return tags[tag] }
        return plan.parts.first { !$0.isTagged && $0.path.contains(path) }
    }

    private mutating func ended(_ reason: String, now: Int64) {
        if !isSuspending { effects.append(.log(.disconnected(reason: reason))) }
        // The upstream sends the data of the parts in order.
        let unfinished = plan.parts.first { if case .synchronizing = parts[$0] { true } else { false } }
        for part in plan.parts { parts[part] = .waiting }
        listens = []
        differing = []
        if let part = unfinished, hasPayloadError || reason.blamesSize {
            let count = payloadFailures?.part == part ? (payloadFailures?.count ?? 0) + 1 : 1
            payloadFailures = (part, count)
            if count >= settings.maxPayloadFailures {
                payloadFailures = nil
                oversized.append(part)
            }
        }
        hasPayloadError = false
        if !isSuspending, resumesAt == nil, !isAuthProblem { enter(.waiting(reason: reason)) }
    }

    // MARK: Data

    private mutating func changed(_ event: ChangeEvent, _ tag: ListenTag?, now: Int64) {
        let path: Path
        var changes: [Change]
        switch event {
        case .put(let changed, let node):
            path = changed
            changes = [Change(path: changed, value: node)]
        case .patch(let base, let relative):
            path = base
            changes = relative.map { Change(path: base.appending($0.path), value: $0.value) }
        }
        guard !changes.isEmpty, let part = part(for: path, tag) else { return }
        if part.isRange {
            // Data at the path itself replaces the range.
            if let whole = changes.last(where: { $0.path == part.path }) {
                return replaced(part, whole.value, now: now)
            }
            for change in changes where !part.mayChange(change.path) {
                return violation("the upstream sent data at \(change.path) for a listen at \(part)", now: now)
            }
        }
        switch parts[part] {
        case .live: submit(.upstream, path, changes, now: now)
        case .synchronizing(let node):
            parts[part] = .synchronizing(
                node.replacing(changes.map { Change(path: $0.path.dropFirst(part.path.depth), value: $0.value) }))
        case .answered, .replaced, .waiting, nil: break
        }
    }

    private mutating func replaced(_ part: FollowPart, _ node: Node, now: Int64) {
        guard part.restrictedMatches(node) else {
            return violation("the upstream sent keys outside \(part)", now: now)
        }
        switch parts[part] {
        case .live:
            parts[part] = .replaced(node)
            differing.append(part)
        case .synchronizing: parts[part] = .synchronizing(node)
        case .answered, .replaced, .waiting, nil: break
        }
    }

    private mutating func merged(_ path: Path, _ merges: [RangeMerge], _ tag: ListenTag?, now: Int64) {
        guard let part = part(for: path, tag), case .synchronizing(let node) = parts[part] else {
            return violation("the upstream sent ranges for a listen that did not ask for them", now: now)
        }
        guard path == part.path, !part.isRange else {
            return violation("the upstream sent ranges at \(path) for a listen at \(part)", now: now)
        }
        guard RangeMerge.areInOrder(merges) else {
            return violation("the upstream sent ranges out of order", now: now)
        }
        parts[part] = .synchronizing(RangeMerge.apply(merges, to: node))
    }

    private mutating func completed(_ part: FollowPart?) {
        guard let part, case .synchronizing(let node) = parts[part] else { return }
        parts[part] = .answered(node)
        differing.append(part)
        if payloadFailures?.part == part { payloadFailures = nil }
    }

    private mutating func refused(_ part: FollowPart?, _ failure: RequestFailure, now: Int64) {
        guard let part, parts[part] != nil else { return }
        parts[part] = .waiting
        listens.removeAll { $0.spec == part.spec }
        differing.removeAll { $0 == part }
        if failure.status == .tooBig {
            oversized.append(part)
        } else {
            refuse(
                part, .denied(reason: "The upstream refused to send \(part) (\(failure.text))"),
                after: settings.refusalPause, now: now)
        }
    }

    /// Ends the connection because of data that can't be followed.
    mutating func violation(_ reason: String, now: Int64) {
        suspend(.invalid(reason: reason), until: now + settings.violationPause, now: now)
    }
}

extension FollowPart {
    /// Whether the part's listen has a query and a tag.
    var isTagged: Bool { isRange && !spec.loadsAllData }

    /// Whether a change of the path belongs to the range.
    func mayChange(_ changed: Path) -> Bool {
        guard path.contains(changed), changed.depth > path.depth else { return false }
        return includes(changed[path.depth])
    }

    /// Whether all children of a node are in the range.
    func restrictedMatches(_ node: Node) -> Bool {
        guard case .branch(let branch) = node else { return true }
        return branch.children.allSatisfy { includes($0.key) }
    }
}

extension String {
    /// Whether the text of an error complains about a size. The real service sends no code
    /// (reference: upstream-facts, "payload too large").
    var blamesSize: Bool {
        let text = lowercased()
        return text.contains("payload") || text.contains("too large") || text.contains("too big")
            || text.contains("too_big")
    }
}

extension RequestFailure {
    /// The status, and the server's explanation if there is one.
    var text: String { explanation.map { "\(status.rawValue): \($0)" } ?? status.rawValue }
}
