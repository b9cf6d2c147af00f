import Engine
import Wire

extension RealtimeSession {
    /// Whether a request may be performed, as far as rates go; it is answered if not.
    func admits(_ request: ClientRequest) -> Bool {
        let limiter = context.limiter
        let refusal =
            address.flatMap { limiter.request(from: $0) } ?? limiter.request(by: login, in: namespace.name)
        guard refusal != nil else {
            refusedInARow = 0
            return true
        }
        // Refusing to send less would make it worse.
        if case .unlisten = request.action { return true }
        refusedInARow += 1
        answerTooMany(request.number)
        return false
    }

    /// The protocol has no status of its own for this: clients know "unavailable", and pass on the text.
    func answerTooMany(_ number: Int64) {
        answer(number, "unavailable", .text(RESTError.tooManyRequests.message))
    }
}
