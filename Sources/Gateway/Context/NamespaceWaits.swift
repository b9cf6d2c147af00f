import Engine
import HTTPServer
import Placement

/// Requests that wait until their namespace is loaded. One for each loop.
final class NamespaceWaits {
    private let databases: Databases
    private let responder: Responder
    private let waits: ExchangeWaits<Result<LiveNamespace, EngineError>>
    private let admissions: ExchangeWaits<Result<LiveNamespace?, EngineError>>

    init(_ databases: Databases, _ services: LoopServices) {
        self.databases = databases
        responder = services.responder
        waits = ExchangeWaits(services.loop)
        admissions = ExchangeWaits(services.loop)
    }

    /// Returns the namespace, if it is loaded.
    func loaded(_ name: String) -> LiveNamespace? { databases.liveNamespace(name) }

    /// Calls `work` with the namespace once it is loaded, but never before this call returns. If loading fails, answers
    /// the request instead; if the client disconnects, drops `work`.
    func whenLoaded(_ name: String, _ exchange: HTTPExchange, _ work: @escaping (LiveNamespace) -> Void) {
        let loaded = waits.wait(exchange) { [responder] result in
            switch result {
            case .success(let namespace): work(namespace)
            case .failure(let error): responder.respond(error, to: exchange)
            }
        }
        databases.withNamespace(name, loaded)
    }

    /// Calls `work` with the namespace, or with nil if its rules refuse the request regardless of the tree.
    ///
    /// - Parameter isRefused: Returns whether the rules refuse the request. Called on any thread.
    func whenLoaded(
        _ name: String, _ exchange: HTTPExchange, unless isRefused: @escaping @Sendable (RulesVersion) -> Bool,
        _ work: @escaping (LiveNamespace?) -> Void
    ) {
        let loaded = admissions.wait(exchange) { [responder] result in
            switch result {
            case .success(let namespace): work(namespace)
            case .failure(let error): responder.respond(error, to: exchange)
            }
        }
        databases.withNamespace(name, unless: isRefused, loaded)
    }
}
