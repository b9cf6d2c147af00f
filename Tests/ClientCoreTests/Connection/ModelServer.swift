import ClientCore
import Testing
import Tree
import Wire

/// A server that answers only on request, and records the messages that it received.
struct ModelServer {
    struct Received: Equatable {
        let connection: UInt64
        let id: Int64
    }

    var received: [Received] = []
    /// The listens of the open connection.
    var listens: Set<ListenTarget> = []
    var isLoggedIn = false
    /// The number of requests that arrived before the login was accepted.
    var early = 0
    var waiting: [ClientRequest] = []

    mutating func connectionBegins() {
        listens = []
        waiting = []
        isLoggedIn = false
    }

    mutating func take(_ requests: [ClientRequest], connection: UInt64) {
        for request in requests {
            waiting.append(request)
            if case .authenticate = request.action { continue }
            if !isLoggedIn { early += 1 }
            switch request.action {
            case .listen(let target, _, _, _):
                #expect(listens.insert(target).inserted, "listened to twice: \(target)")
            case .unlisten(let target): #expect(listens.remove(target) != nil, "not listened to: \(target)")
            case .put(_, let data, _, _):
                if case .int(let id) = data.node { received.append(Received(connection: connection, id: id)) }
            default: break
            }
        }
    }
}
