internal import ClientCore
internal import Wire

/// A request to the app's token provider.
struct TokenQuestion {
    let number: UInt64
    let task: Task<Void, Never>
    /// The time until which writes wait for the token, or nil once the provider has answered or has taken too long.
    var isAwaitedUntil: Int64?
}

extension LocalDatabase {
    /// Requests the signed-in user's token from the app.
    ///
    /// - Parameter isForced: Whether the previous token is no longer valid.
    func askForToken(isForced: Bool) {
        guard let tokenProvider else { return machine.tokenProvided(nil, now: now) }
        let number = (token?.number ?? 0) + 1
        token?.task.cancel()
        let task = Task { [weak outside] in
            do {
                let token = try await tokenProvider(isForced)
                outside?.perform { database in
                    database.answerToken(number) {
                        if token == nil { $0.reportHeldWrites() }
                        $0.machine.tokenProvided(token.map { AuthRequest(token: $0) }, now: $0.now)
                    }
                }
            } catch {
                // The error's own text could contain a token.
                let reason = "the token provider threw \(type(of: error))"
                outside?.perform { database in
                    database.answerToken(number) { $0.machine.tokenFailed(reason: reason, now: $0.now) }
                }
            }
        }
        token = TokenQuestion(number: number, task: task, isAwaitedUntil: now + settings.tokenWait)
        holdWritesIfNeeded()
    }

    /// Handles the provider's answer. Answers to older requests are ignored: they may arrive after the answer to the latest one.
    private func answerToken(_ number: UInt64, _ body: (LocalDatabase) -> Void) {
        guard token?.number == number else { return }
        body(self)
        stopWaitingForToken()
    }

    /// Lets writes proceed although the provider has not answered yet. Its answer is still accepted.
    func stopWaitingForToken() {
        token?.isAwaitedUntil = nil
        holdWritesIfNeeded()
    }

    /// Holds writes while a token is requested: writes made after a user has signed in belong to that user. The hold is limited in
    /// time, because a provider that never answers must not keep writes from being sent with a token that is still valid.
    private func holdWritesIfNeeded() {
        let mustHold = token?.isAwaitedUntil != nil || isHoldingRestored
        guard mustHold != isHoldingWrites else { return }
        isHoldingWrites = mustHold
        machine.holdWrites(mustHold, now: now)
    }

    /// Holds the writes of an earlier run that a signed-in user made until a user is signed in again, so that they are not refused.
    func holdRestoredWrites() {
        isHoldingRestored = tokenProvider != nil && hasRestoredWrites && store?.signIn().isSignedIn == true
        holdWritesIfNeeded()
    }

    /// Warns once that writes are held because no user is signed in.
    private func reportHeldWrites() {
        guard isHoldingRestored, !hasReportedHeldWrites else { return }
        hasReportedHeldWrites = true
        ClientLog.warning(
            "Writes of an earlier run, made by a signed-in user, and all later writes wait until a user is signed in. "
                + "purgeOutstandingWrites() discards them.")
    }

    /// Releases the writes that wait for a sign-in, after the restored writes were purged.
    func releaseRestoredWrites() {
        guard isHoldingRestored else { return }
        isHoldingRestored = false
        // No user is signed in, because the writes were still held. Writes from now on therefore belong to no user after a restart, too.
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
