internal import ClientCore
internal import Wire

/// The app was asked who is signed in.
struct TokenQuestion {
    let number: UInt64
    let task: Task<Void, Never>
    /// Nil once it was answered, or has taken too long.
    var isAwaitedUntil: Int64?
}

extension LocalDatabase {
    /// Asks the app who is signed in.
    ///
    /// - Parameter isForced: a token that was given before is of no use.
    func askForToken(isForced: Bool) {
        guard let tokenProvider else { return machine.tokenProvided(nil, now: now) }
        let number = (token?.number ?? 0) + 1
        token?.task.cancel()
        let task = Task { [weak outside] in
            do {
                let token = try await tokenProvider(isForced)
                outside?.perform { database in
                    database.answerToken(number) {
                        if token == nil { $0.tellOfHeldWrites() }
                        $0.machine.tokenProvided(token.map { AuthRequest(token: $0) }, now: $0.now)
                    }
                }
            } catch {
                // The error's own text may hold anything, a token among it.
                let reason = "the token provider threw \(type(of: error))"
                outside?.perform { database in
                    database.answerToken(number) { $0.machine.tokenFailed(reason: reason, now: $0.now) }
                }
            }
        }
        token = TokenQuestion(number: number, task: task, isAwaitedUntil: now + settings.tokenWait)
        holdWritesIfNeeded()
    }

    /// What is said to an older question is of no interest: it may come after the newer one's answer, or never.
    private func answerToken(_ number: UInt64, _ body: (LocalDatabase) -> Void) {
        guard token?.number == number else { return }
        body(self)
        stopWaitingForToken()
    }

    /// The writes are let go on. The question still stands.
    func stopWaitingForToken() {
        token?.isAwaitedUntil = nil
        holdWritesIfNeeded()
    }

    /// Writes wait for the token that is being asked for: what is written after somebody has signed in is his. Not for
    /// ever: a provider that never answers must not keep them from being sent with the token that is still good.
    private func holdWritesIfNeeded() {
        let mustHold = token?.isAwaitedUntil != nil || isHoldingRestored
        guard mustHold != isHoldingWrites else { return }
        isHoldingWrites = mustHold
        machine.holdWrites(mustHold, now: now)
    }

    /// Writes that somebody made who was signed in wait until somebody is again, instead of being refused.
    func holdRestoredWrites() {
        isHoldingRestored = tokenProvider != nil && hasRestoredWrites && store?.signIn().isSignedIn == true
        holdWritesIfNeeded()
    }

    /// Nobody is signed in, and that is why nothing is sent.
    private func tellOfHeldWrites() {
        guard isHoldingRestored, !hasToldOfHeldWrites else { return }
        hasToldOfHeldWrites = true
        ClientLog.warning(
            "Writes of an earlier run, by somebody who was signed in, and all after them wait until somebody is signed in. "
                + "purgeOutstandingWrites() gives them up.")
    }

    /// What was to wait for somebody's sign-in has been given up: nothing has to wait behind it.
    func releaseRestoredWrites() {
        guard isHoldingRestored else { return }
        isHoldingRestored = false
        // Nobody is signed in, or they would not be waited for: what is written from now on is nobody's after a restart, too.
        store?.save(SignInState())
        holdWritesIfNeeded()
    }

    func signedIn(_ answer: LoginAnswer?) {
        ClientLog.info("signed in")
        store?.save(SignInState(isSignedIn: true, expiresAt: answer?.expires))
        isHoldingRestored = false
        holdWritesIfNeeded()
    }

    func signedOut() {
        ClientLog.info("signed out")
        if !isHoldingRestored { store?.save(SignInState()) }
    }
}
