internal import ClientCore
internal import Wire

extension LocalDatabase {
    /// Asks the app who is signed in.
    ///
    /// - Parameter isForced: a token that was given before is of no use.
    func askForToken(isForced: Bool) {
        guard let tokenProvider else { return machine.tokenProvided(nil, now: now) }
        Task { [weak outside] in
            do {
                let token = try await tokenProvider(isForced)
                outside?.perform { $0.machine.tokenProvided(token.map { AuthRequest(token: $0) }, now: $0.now) }
            } catch {
                // The error's own text may hold anything, a token among it.
                let reason = "the token provider threw \(type(of: error))"
                outside?.perform { $0.machine.tokenFailed(reason: reason, now: $0.now) }
            }
            outside?.perform { $0.tokenAnswered() }
        }
        tokensAskedFor += 1
        holdWritesIfNeeded()
    }

    private func tokenAnswered() {
        tokensAskedFor -= 1
        holdWritesIfNeeded()
    }

    /// Writes wait for the token that is being asked for: what is written after somebody has signed in is his.
    private func holdWritesIfNeeded() {
        let mustHold = tokensAskedFor > 0 || isHoldingRestored
        guard mustHold != isHoldingWrites else { return }
        isHoldingWrites = mustHold
        machine.holdWrites(mustHold, now: now)
    }

    /// Writes that somebody made who was signed in wait until somebody is again, instead of being refused.
    func holdRestoredWrites() {
        isHoldingRestored = tokenProvider != nil && hasRestoredWrites && store?.signIn().isSignedIn == true
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
