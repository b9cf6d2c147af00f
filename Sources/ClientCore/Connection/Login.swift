public import Wire

/// Who is signed in, as far as the machine knows, and what was made of it.
struct Login: Sendable {
    /// The token for the connection that stands or is made.
    enum Token: Sendable {
        case unknown
        /// The app has been asked.
        case asked(isForced: Bool)
        case known(AuthRequest?)
    }

    var token = Token.unknown
    /// The app is to give another token than the one before: that was refused.
    var needsNewToken = false
    /// The pause between two tries is there for the want of a token that is good: a new one ends it.
    var isPausingForToken = false
    /// Of the login that was sent last.
    var serial: UInt64 = 0
    /// Refused one after the other.
    var failures = 0
    /// When a new token is to be asked for; the one in use ends soon.
    var refreshAt: Int64?
    var appCheckToken: String?

    /// For a new connection a token is asked for, unless the app has just given one. Nil where it need not be asked.
    mutating func askForConnection() -> Bool? {
        isPausingForToken = false
        if case .known = token { return nil }
        token = .asked(isForced: needsNewToken)
        defer { needsNewToken = false }
        return needsNewToken
    }

    /// A token is good for one connection only: the next asks the app again.
    mutating func connectionEnded() {
        token = .unknown
        refreshAt = nil
    }
}

extension AuthRequest {
    /// A login with a token as apps have it: a signed one (a JWT) is a user's, anything else an administrator's.
    public init(token: String) {
        self.init(credential: token, isGoogle: token.split(separator: ".", omittingEmptySubsequences: false).count != 3)
    }
}

extension ConnectionMachine {
    /// The answer to `askForToken`, or news of the app's: who is signed in now. Nil: nobody.
    ///
    /// While connected the new login is sent over the connection that stands; where a try to connect waits for want of a
    /// good token, it begins at once.
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
            // What was sent of an older token is answered, too, and looked at no more.
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

    /// The answer to `askForToken` where there can be no token now. Nothing is sent without one: the connection is closed
    /// and tried again later, or when `tokenProvided` is called. A connection that stands goes on with the token it has.
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

    /// A proof that the app is genuine; nil takes it back. The answer to `askForAppCheckToken`, or news of the app's.
    public mutating func setAppCheckToken(_ token: String?, now: Int64) {
        login.appCheckToken = token
        if isConnected { send(.appCheck(token: token), as: .appCheck, now: now) }
    }

    /// The server has greeted, or the token is there: what is missing of the two is waited for.
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
        // A newer login decides.
        guard serial == login.serial else { return }
        guard answer.status == .ok else { return loginFailed(failure(answer), now: now) }
        // The pauses had become long because of the tokens.
        if login.failures > 0 { retry.reset() }
        login.failures = 0
        login.refreshAt = answer.login?.expires.flatMap { refreshTime(expires: $0, now: now) }
        if case .known(.some) = login.token {
            effects.append(.report(.signedIn(answer.login)))
        } else {
            effects.append(.report(.signedOut))
        }
        if phase != .ready { becomeReady(now: now) }
    }

    /// The server has refused the login, or ended it: all that was asked with it has to be asked again.
    mutating func loginFailed(_ failure: RequestFailure, now: Int64) {
        login.failures += 1
        login.needsNewToken = true
        effects.append(.report(.signInFailed(failure, count: login.failures)))
        // The app seems to have no good token: not soon again.
        if login.failures >= Self.mostLoginFailures { retry.giveUpForNow() }
        end(reason: "the login was refused (\(failure.status.rawValue))", closes: true, .later, now: now)
        login.isPausingForToken = true
    }

    private static var mostLoginFailures: Int { 3 }

    /// A minute before the token ends, or when three quarters of its time are over; nil where that can't be told.
    private func refreshTime(expires: Int64, now: Int64) -> Int64? {
        guard let connection, let greetedAt = connection.greetedAt, let serverTime = connection.serverTime else {
            return nil
        }
        let (end, isTooMuch) = expires.multipliedReportingOverflow(by: 1_000)
        guard !isTooMuch else { return nil }
        let (left, isOver) = end.subtractingReportingOverflow(serverTime + (now - greetedAt))
        // What ends in the far future, or has ended, tells nothing.
        guard !isOver, left > 0, left < 1 << 50 else { return nil }
        return now + max(left - 60_000, left / 4 * 3)
    }
}
