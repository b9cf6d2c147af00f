import Engine
import Rules
import Runtime
import Tree
import Wire

extension RealtimeSession {
    func authenticate(_ number: Int64, _ request: AuthRequest) {
        var credentials = Authenticator.Credentials(
            credential: request.credential, namespace: namespace.name, isLoopback: isLoopback)
        do throws(AuthFailure) {
            if request.isUnauthenticated {
                credentials.override = .auth(.null)
            } else if let override = request.override {
                credentials.override = try .init(json: override)
            }
        } catch {
            return refuse(number, error)
        }
        switch context.authenticator.authenticate(credentials) {
        case .now(let result): authenticated(number, result)
        case .later(let start):
            // Later requests are checked against the new login (reference: rtdb-protocol 3.6).
            hold()
            start { [sessionLoop = host.sessionLoop, id] result in
                sessionLoop.post(to: id) { session in
                    session.authenticated(number, result)
                    session.release()
                }
            }
        }
    }

    private func authenticated(_ number: Int64, _ result: Result<Identity, AuthFailure>) {
        switch result {
        case .failure(let failure): refuse(number, failure)
        case .success(let login):
            changeLogin(login)
            var writer = JSONWriter(form: .plain)
            writer.beginObject()
            writer.writeKey("auth", isFirst: true)
            writer.write(login.context.auth)
            writer.writeKey("expires", isFirst: false)
            if let end = login.expiresAt { writer.writeInteger(end / 1_000) } else { writer.raw("null") }
            writer.endObject()
            answer(number, "ok", .raw(writer.bytes))
        }
    }

    /// Answers a rejected credential. The session is anonymous from then on, so that the login of the next request is
    /// unambiguous. Clients close the connection upon the answer and log in again (reference: rtdb-protocol 2.5). So
    /// the answer precedes the cancellations, which clients then do not take for the end of their listens.
    private func refuse(_ number: Int64, _ failure: AuthFailure) {
        answer(number, failure.socketStatus, .text(failure.socketText))
        changeLogin(.anonymous(isLoopback: isLoopback))
    }

    func unauthenticate(_ number: Int64) {
        changeLogin(.anonymous(isLoopback: isLoopback))
        answer(number, "ok", .text("unauthenticated"))
    }

    private func changeLogin(_ login: Identity) {
        let wasAnonymous = self.login.isAnonymous
        self.login = login
        // An anonymous login has the same permissions as the previous anonymous one.
        if !(wasAnonymous && login.isAnonymous) {
            loginNumber += 1
            recheckListens(holdsRequests: true)
        }
        // The rules check the onDisconnect operations against the login that the session has at its end.
        perform(saving.loginChanged())
    }

    /// Ends a login that is no longer valid: it has expired, or its secret was removed (reference: rtdb-protocol 10.1).
    func recheckLogin(now: Int64) {
        guard !context.authenticator.isValid(login, now: now) else { return }
        answer(ServerMessage.authRevoked("expired_token", "Auth token is expired."))
        changeLogin(.anonymous(isLoopback: isLoopback))
    }
}
