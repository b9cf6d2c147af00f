import Engine
import HTTPServer
import Wire

/// What a client is told that can't be given the log from where it wants it.
struct LogRefusal {
    private let error: LogReadError

    init(_ error: LogReadError) { self.error = error }

    func respond(_ exchange: HTTPExchange, _ responder: Responder) {
        switch error {
        case .engine(let error): responder.respond(error, to: exchange)
        case .pruned(let oldest):
            exchange.commonHeaders.add("X-Pathmirror-Oldest-Seq", "\(oldest)")
            responder.respond(
                RESTError(410, "What follows is not in the log any more: it begins with entry \(oldest)"), to: exchange)
        case .otherHistory(let head):
            exchange.commonHeaders.add("X-Pathmirror-Seq", "\(head)")
            responder.respond(
                RESTError(
                    410,
                    "The log has no such place: it ends with entry \(head), or entries were taken back and written anew"
                ),
                to: exchange)
        }
    }
}
