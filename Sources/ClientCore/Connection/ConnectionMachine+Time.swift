import Wire

extension ConnectionMachine {
    /// When `timePassed` wants to be called; nil for never. It changes with every call of the machine.
    public var deadline: Int64? {
        switch phase {
        case .idle: return nil
        case .pausing(let until): return until
        case .opening(let since), .signingIn(let since): return since + settings.connectTimeout
        case .ready:
            guard let connection else { return nil }
            let next = min(connection.lastSent + settings.keepAlive, connection.silenceEnds(settings))
            return [login.refreshAt, connection.waitsAgainAt].compactMap(\.self).reduce(next, min)
        }
    }

    /// Does what is due. To be called at `deadline` or a little later; calls before it do nothing.
    public mutating func timePassed(now: Int64) {
        switch phase {
        case .idle: return
        case .pausing(let until): if now >= until { open(now: now) }
        case .opening(let since):
            guard now >= since + settings.connectTimeout else { return }
            end(reason: "the server did not greet in time", closes: true, .later, now: now)
        case .signingIn(let since):
            guard now >= since + settings.connectTimeout else { return }
            if case .asked = login.token {
                tokenFailed(reason: "it did not come in time", now: now)
            } else {
                end(reason: "the server did not answer the login in time", closes: true, .later, now: now)
            }
        case .ready: keepUp(now: now)
        }
    }

    private mutating func keepUp(now: Int64) {
        guard let open = connection else { return }
        if now >= open.silenceEnds(settings) {
            guard open.pingedAt == nil else {
                return end(reason: "the server gives no sign of life", closes: true, .later, now: now)
            }
            connection?.pingedAt = now
            sendText(ClientMessage.ping.text ?? [], now: now)
        } else if now >= open.lastSent + settings.keepAlive {
            sendText(ClientMessage.keepAlive, now: now)
        }
        if let time = open.waitsAgainAt, now >= time, connection != nil {
            connection?.waitsAgainAt = nil
            sendWaits(now: now)
        }
        if let refreshAt = login.refreshAt, now >= refreshAt {
            login.refreshAt = nil
            effects.append(.askForToken(isForced: true))
        }
    }

    private mutating func sendText(_ text: [UInt8], now: Int64) {
        connection?.lastSent = now
        effects.append(.send(text))
    }
}
