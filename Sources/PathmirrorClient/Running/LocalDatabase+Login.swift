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
                outside?.perform { $0.machine.tokenProvided(token.map { AuthRequest(credential: $0) }, now: $0.now) }
            } catch {
                // The error's own text may hold anything, a token among it.
                let reason = "the token provider threw \(type(of: error))"
                outside?.perform { $0.machine.tokenFailed(reason: reason, now: $0.now) }
            }
        }
    }

    /// Writes that somebody made who was signed in wait until somebody is again, instead of being refused.
    func holdRestoredWrites() {
        guard tokenProvider != nil, hasRestoredWrites, store?.signIn().isSignedIn == true else { return }
        machine.holdWrites(true, now: now)
        isHoldingWrites = true
    }

    func signedIn(_ answer: LoginAnswer?) {
        ClientLog.info("signed in")
        store?.save(SignInState(isSignedIn: true, expiresAt: answer?.expires))
        guard isHoldingWrites else { return }
        isHoldingWrites = false
        machine.holdWrites(false, now: now)
    }

    func signedOut() {
        ClientLog.info("signed out")
        if !isHoldingWrites { store?.save(SignInState()) }
    }
}
