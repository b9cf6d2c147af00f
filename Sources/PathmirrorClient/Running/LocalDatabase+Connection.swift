internal import ClientCore
internal import Runtime
internal import Tree
internal import Wire

extension LocalDatabase {
    /// Executes the connection machine's effects until there are no more.
    func carryOutEffects() {
        while true {
            let effects = machine.takeEffects()
            if effects.isEmpty { return }
            for effect in effects { carryOut(effect) }
        }
    }

    private func carryOut(_ effect: ConnectionEffect) {
        switch effect {
        case .open(let address, let number): open(address, number)
        case .send(let text): channel?.channel.send(text)
        case .sendListen(let request): send(request)
        case .close(let reason):
            ClientLog.info("closing the connection: \(reason)")
            channel?.channel.close()
            channel = nil
        case .askForToken(let isForced): askForToken(isForced: isForced)
        case .askForAppCheckToken: machine.setAppCheckToken(nil, now: now)
        case .report(let report): take(report)
        }
    }

    private func open(_ address: RealtimeAddress, _ number: ConnectionNumber) {
        let outside = outside
        let opened = transport.connect(to: address) { [weak outside] event in
            outside?.perform { $0.take(event, of: number) }
        }
        channel = (number, opened)
    }

    private func take(_ event: TransportEvent, of number: ConnectionNumber) {
        machine.transport(event, of: number, now: now)
        carryOutEffects()
        if case .received(let text) = event, let channel, channel.number == number {
            channel.channel.processed(text.count)
        }
    }

    /// Sends a listen with the hash of the known data, so that the server does not send unchanged data again.
    private func send(_ request: ListenRequest) {
        let known = tree.serverValue(of: request.spec)
        if request.mayResume, known.isComplete, known.node.rowCount >= settings.resumptionRows,
            let after = tree.resumption(of: request.spec)
        {
            tree.sent(request.spec, tag: request.tag, resumes: true)
            bareListens.sent(request.spec, tag: request.tag, isComplete: true)
            for text in request.messages(hash: "", after: after) { channel?.channel.send(text) }
            return
        }
        tree.sent(request.spec, tag: request.tag)
        let isFiltered = !request.spec.loadsAllData
        let node = isFiltered ? known.node.withoutPriority : known.node
        let compound = isFiltered || !known.isComplete || node.rowCount < 50 ? nil : CompoundHash(of: node)
        let hash = known.isComplete ? node.hash : ""
        bareListens.sent(request.spec, tag: request.tag, isComplete: known.isComplete)
        for text in request.messages(hash: hash, compound: compound) { channel?.channel.send(text) }
    }

    // MARK: Reports

    private func take(_ report: ConnectionReport) {
        switch report {
        case .connected(let serverTime): connected(serverTime)
        case .disconnected(let reason): disconnected(reason)
        case .connectFailed(let reason, let delay): connectFailed(reason, delay)
        case .changed(.put(let path, let node), let tag, let mark):
            bareListens.heard(at: path, tag: tag)
            raise(tree.applyServer(node, at: path, tag: tag, mark: mark))
            dataChanged(at: path)
        case .changed(.patch(let path, let changes), let tag, let mark):
            bareListens.heard(at: path, tag: tag)
            raise(tree.applyServer(changes, at: path, tag: tag, mark: mark))
            dataChanged(at: path)
        case .ranges(let path, let ranges, let tag, let mark):
            bareListens.heard(at: path, tag: tag)
            let known = tree.askedValue(at: path)
            raise(tree.applyServer(RangeMerge.apply(ranges, to: known), at: path, tag: tag, mark: mark))
            dataChanged(at: path)
        case .listenCompleted(let spec, let tag, let lacksIndex, let mark):
            if lacksIndex {
                ClientLog.warning(
                    "A query of \(spec.path) has no index on the server: add \".indexOn\" to the rules there.")
            }
            // Data received in the meantime came with earlier answers: to the client's own writes, and to get requests.
            if bareListens.answered(spec, tag: tag) {
                raise(tree.applyServer(.null, at: spec.path, tag: tag, mark: mark))
            }
            raise(tree.completeListen(spec, tag: tag, mark: mark))
            dataChanged(at: spec.path)
        case .listenRefused(let spec, _, let failure):
            cancelListeners(of: spec, DatabaseError(failure, "reading \(spec.path)"))
        case .writeAnswered(let id, let outcome, let seq): writeAnswered(id, outcome, seq)
        case .onDisconnectAnswered(let id, let outcome): onDisconnectAnswered(id, outcome)
        case .getAnswered(let id, let outcome): getAnswered(id, outcome)
        case .waitAnswered(let id, let outcome): waitAnswered(id, outcome)
        case .signedIn(let answer): signedIn(answer)
        case .signedOut: signedOut()
        case .signInFailed(let failure, let count):
            ClientLog.warning(
                "The server does not accept the login (\(failure.status.rawValue), \(count) times): "
                    + (failure.explanation ?? "the server gives no reason"))
        case .tokenMissing(let reason): ClientLog.warning("There is no token to sign in with: \(reason)")
        case .shutDown(let reason): ClientLog.warning("The server asked this client not to connect again: \(reason)")
        case .serverError(let text): ClientLog.info("the server reports an error: \(text)")
        case .securityDebug(let text), .note(let text): ClientLog.info(text)
        }
    }

    private func connectFailed(_ reason: String, _ delay: Int64) {
        ClientLog.info("no connection: \(reason); next try in \(delay) ms")
        guard outageNotices.isNews(reason) else { return }
        ClientLog.warning(
            "There is no connection to \(origin): \(reason). The client tries again; until then the database uses its local data."
        )
    }

    private func connected(_ serverTime: Int64) {
        isConnected = true
        ClientLog.info("connected to \(origin)")
        if outageNotices.connected() { ClientLog.notice("There is a connection to \(origin) again.") }
        let timeOffset = serverTime - Clock.unixMilliseconds
        outside.serverTimeOffset = timeOffset
        setInfo(InfoPath.serverTimeOffset, .int(timeOffset))
        setInfo(InfoPath.connected, .bool(true))
        askWaitingGets()
    }

    private func disconnected(_ reason: String) {
        ClientLog.info("disconnected: \(reason)")
        isConnected = false
        setInfo(InfoPath.connected, .bool(false))
        applyDisconnectQueue()
    }
}
