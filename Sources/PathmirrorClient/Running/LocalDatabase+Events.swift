internal import ClientCore
internal import Tree

extension LocalDatabase {
    // MARK: Listeners

    func add(_ listener: EventObserver) {
        listeners[listener.registration.id] = listener
        if listener.registration.spec.path.isInfo {
            raiseInfo(infoTree.add(listener.registration))
        } else {
            raise(tree.add(listener.registration))
        }
    }

    func remove(_ removed: [EventObserver]) {
        for listener in removed where listeners.removeValue(forKey: listener.registration.id) != nil {
            if listener.registration.spec.path.isInfo {
                raiseInfo(infoTree.remove(listener.registration))
            } else {
                raise(tree.remove(listener.registration))
            }
        }
    }

    func setKeptSynced(_ spec: QuerySpec, _ isKept: Bool) {
        guard !spec.path.isInfo else { return }
        raise(tree.setKeptSynced(spec, isKept))
    }

    /// Ends the listeners of a listen that the server has refused or revoked.
    func cancelListeners(of spec: QuerySpec, _ error: DatabaseError) {
        let (registrations, effects) = tree.removeAll(spec)
        for registration in registrations {
            guard let listener = listeners.removeValue(forKey: registration.id) else { continue }
            outside.forget(listener)
            if !listener.wantsErrors { ClientLog.warning("A listener was cancelled: \(error.message)") }
            callBack { listener.reportCancelled(error) }
        }
        raise(effects)
    }

    // MARK: Effects

    /// Delivers the events to the app, and sends the changes of listens to the server.
    func raise(_ effects: SyncEffects) {
        for change in effects.listens {
            switch change {
            case .start(let spec, let tag): machine.listen(spec, tag: tag, now: now)
            case .stop(let spec, let tag):
                bareListens.stopped(spec, tag: tag)
                machine.unlisten(spec, tag: tag, now: now)
            }
        }
        report(effects.events)
    }

    private func report(_ events: [DataEvent]) {
        var finished: [EventObserver] = []
        for event in events {
            guard let listener = listeners[event.registration] else { continue }
            callBack { listener.report(event) }
            if listener.isForOneEvent { finished.append(listener) }
        }
        if !finished.isEmpty { remove(finished) }
    }

    // MARK: .info

    /// Sets a value that the client itself provides.
    func setInfo(_ path: Path, _ value: Node) {
        guard info[path] != value else { return }
        info[path] = value
        raiseInfo(infoTree.applyServer(value, at: path, tag: nil))
    }

    private func raiseInfo(_ effects: SyncEffects) {
        report(effects.events)
        for change in effects.listens {
            guard case .start(let spec, let tag) = change else { continue }
            var value = Node.null
            for (path, node) in info where spec.path.contains(path) {
                value = value.replacing(path.relative(to: spec.path), with: node)
            }
            report(
                infoTree.applyServer(
                    spec.query.selectsAll ? value : spec.query.select(from: value), at: spec.path, tag: tag
                ).events)
            report(infoTree.completeListen(spec, tag: tag).events)
        }
    }
}

/// The paths that the client answers itself.
enum InfoPath {
    /// Whether the client is connected to the server.
    static let connected = Path([.info, Key("connected")])
    /// The difference between the server's time and this machine's, in milliseconds. Adding it to this machine's time gives the server's.
    static let serverTimeOffset = Path([.info, Key("serverTimeOffset")])
}
