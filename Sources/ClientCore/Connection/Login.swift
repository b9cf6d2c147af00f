public import Wire

/// The machine's knowledge of the signed-in user, and the state of the login.
struct Login: Sendable {
    /// The token for the present or next connection.
    enum Token: Sendable {
        case unknown
        /// The app has been asked for a token.
        case asked(isForced: Bool)
        case known(AuthRequest?)
    }

    var token = Token.unknown
    /// Whether the app has to provide another token, because the last one was refused.
    var needsNewToken = false
    /// Whether the pause between two attempts is due to the lack of a valid token; a new token ends it.
    var isPausingForToken = false
    /// The number of the login that was sent last.
    var serial: UInt64 = 0
    /// The number of consecutive refused logins.
    var failures = 0
    /// Whether the last failure concerned a login that the server had accepted.
    var wasRevoked = false
    /// The time at which a new token is requested, because the one in use expires soon.
    var refreshAt: Int64?
    var appCheckToken: String?

    /// Prepares the token for a new connection. Returns whether the app has to provide a token other than the last one,
    /// or nil if the app has just provided one.
    mutating func askForConnection() -> Bool? {
        isPausingForToken = false
        if case .known = token { return nil }
        token = .asked(isForced: needsNewToken)
        defer { needsNewToken = false }
        return needsNewToken
    }

    /// Discards the token, which is valid for one connection only: the next connection asks the app again.
    mutating func connectionEnded() {
        token = .unknown
        refreshAt = nil
    }
}

extension AuthRequest {
    /// Creates a login from an app's token: a signed token (a JWT) is a user's, any other an administrator's.
    public init(token: String) {
        self.init(credential: token, isGoogle: token.split(separator: ".", omittingEmptySubsequences: false).count != 3)
    }
}

extension ConnectionMachine {
    /// Handles the answer to `askForToken`, or a change of the signed-in user in the app. Nil: no user.
    ///
    /// While connected, the new login is sent over the present connection. If an attempt to connect is waiting for a
    /// valid token, it begins at once.
    public mutating func tokenProvided(_ credential: AuthRequest?, now: Int64) {
        let before = login.token
        login.token = .known(credential)
        login.needsNewToken = false
        switch phase {
        case .idle, .opening: break
        case .pausing:
            guard login.isPausingForToken else { break }
            retry.reset()
            open(now: now)
        case .signingIn:
            // The server also answers the login with the older token, but that answer is ignored.
            guard case .known(let old) = before else {
                signIn(now: now)
                break
            }
            if old != credential { sendLogin(credential, now: now) }
        case .ready:
            if case .known(let old) = before, old == credential { break }
            login.refreshAt = nil
            sendLogin(credential, now: now)
        }
    }

    /// Handles the answer to `askForToken` if no token is available now. The connection is closed, because nothing is
    /// sent without a token, and is retried later, or when `tokenProvided` is called. An open connection continues with
    /// its present token.
    public mutating func tokenFailed(reason: String, now: Int64) {
        switch phase {
        case .idle, .pausing: return
        case .opening, .signingIn:
            guard case .asked(let isForced) = login.token else { return }
            effects.append(.report(.tokenMissing(reason: reason)))
            login.needsNewToken = isForced
            end(reason: "the app has no token: \(reason)", closes: true, .later, now: now)
            login.isPausingForToken = true
        case .ready: effects.append(.report(.tokenMissing(reason: reason)))
        }
    }

    /// Sets the proof that the app is genuine; nil removes it. Answers `askForAppCheckToken`, or reports a change in
    /// the app.
    public mutating func setAppCheckToken(_ token: String?, now: Int64) {
        login.appCheckToken = token
        if isConnected { send(.appCheck(token: token), as: .appCheck, now: now) }
    }

    /// Sends the login once both the server's greeting and the token are there.
    mutating func signIn(now: Int64) {
        guard case .known(let credential) = login.token else { return }
        guard let credential else { return becomeReady(now: now) }
        sendLogin(credential, now: now)
    }

    private mutating func sendLogin(_ credential: AuthRequest?, now: Int64) {
        login.serial += 1
        if let credential {
            send(.authenticate(credential), as: .login(login.serial), now: now)
        } else {
            send(.unauthenticate, as: .login(login.serial), now: now)
        }
    }

    mutating func loginAnswered(_ serial: UInt64, _ answer: ServerResponse, now: Int64) {
        // The answer to a newer login decides.
        guard serial == login.serial else { return }
        guard answer.status == .ok else { return loginFailed(failure(answer), now: now) }
        // The pauses had become long because of the refused tokens. A server that accepts a login and then revokes it must not be
        // asked once a second.
        if login.failures > 0, !login.wasRevoked { retry.reset() }
        login.failures = 0
        login.refreshAt = answer.login?.expires.flatMap { refreshTime(expires: $0, now: now) }
        if case .known(.some) = login.token {
            effects.append(.report(.signedIn(answer.login)))
        } else {
            effects.append(.report(.signedOut))
        }
        if phase != .ready { becomeReady(now: now) }
    }

    /// Handles a login that the server has refused or revoked: everything requested under it has to be requested again.
    mutating func loginFailed(_ failure: RequestFailure, now: Int64) {
        login.failures += 1
        login.wasRevoked = phase == .ready
        login.needsNewToken = true
        effects.append(.report(.signInFailed(failure, count: login.failures)))
        // The app seems to have no valid token, so the next attempt is delayed.
        if login.failures >= Self.mostLoginFailures { retry.giveUpForNow() }
        end(reason: "the login was refused (\(failure.status.rawValue))", closes: true, .later, now: now)
        login.isPausingForToken = true
    }

    private static var mostLoginFailures: Int { 3 }

    /// Returns the time for a new token: some time before the present one expires, or after three quarters of its
    /// remaining time if that is short; nil if unknown.
    private func refreshTime(expires: Int64, now: Int64) -> Int64? {
        guard let connection, let greetedAt = connection.greetedAt, let serverTime = connection.serverTime else {
            return nil
        }
        let (end, isTooMuch) = expires.multipliedReportingOverflow(by: 1_000)
        guard !isTooMuch else { return nil }
        let (left, isOver) = end.subtractingReportingOverflow(serverTime + (now - greetedAt))
        // An expiry in the far future or in the past is useless.
        guard !isOver, left > 0, left < 1 << 50 else { return nil }
        let isShort = left < max(settings.shortTokenLife, settings.renewalMargin)
        return now + (isShort ? left / 4 * 3 : left - settings.renewalMargin)
    }
}
