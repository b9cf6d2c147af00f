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
            responder.respond(
                RESTError(
                    410,
                    "The log has no such place: it ends with entry \(head), or entries were taken back and written anew"
                ),
                to: exchange)
        case .damaged(let next):
            exchange.commonHeaders.add("Stream-Next-Offset", LogPlaceText.offset(next))
            responder.respond(
                RESTError(
                    410,
                    "Entry \(next.seq) is damaged: parts of it are missing. Begin with a copy of the tree, or continue after the entry, at Stream-Next-Offset"
                ),
                to: exchange)
        }
    }
}
