extension ConnectionMachine {
    /// When there is to be another connection.
    enum Again: Equatable {
        case never
        /// After a pause.
        case later
        /// The server has said where to go.
        case atOnce
    }

    /// The connection is over, or is to be, or did not come about.
    ///
    /// - Parameter closes: whether the transport is to close it; false where that has told of its end.
    mutating func end(reason: String, closes: Bool, _ again: Again, now: Int64) {
        guard let open = connection else {
            // Between two tries: gets have been waiting for the next one.
            if again == .never { lose() }
            return
        }
        let wasConnected = isConnected
        connection = nil
        if closes { effects.append(.close(reason: reason)) }
        login.connectionEnded()
        lose()
        if let greetedAt = open.greetedAt {
            if now - greetedAt >= settings.goodConnection { retry.reset() }
        } else if again == .later {
            // Nobody greets where the server had sent the client.
            place = ServerPlace(host: settings.host, port: settings.port)
        }
        if wasConnected { effects.append(.report(.disconnected(reason: reason))) }
        guard wantsOnline, !isShutDown, again != .never else {
            phase = .idle
            return
        }
        if again == .atOnce { return self.open(now: now) }
        let pause = retry.next()
        phase = .pausing(until: now + pause)
        if !wasConnected { effects.append(.report(.connectFailed(reason: reason, retryAfter: pause))) }
    }

    private mutating func lose() {
        for content in queue.connectionEnded() { tell(content, .lost) }
    }

    /// The server breaks the protocol.
    mutating func fail(_ reason: String, now: Int64) {
        end(
            reason: "the server sent what is no message of the protocol: \(Self.bounded(reason))", closes: true, .later,
            now: now)
    }

    /// Text of a server's, of a length that a log can bear.
    static func bounded(_ text: String, _ length: Int = 300) -> String {
        text.utf8.count <= length ? text : String(text.unicodeScalars.prefix(length)) + "…"
    }
}
