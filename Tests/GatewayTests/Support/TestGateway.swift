import Engine
import Gateway
import Glibc
import HTTPServer
import Postgres
import Rules
import Runtime
import TestSupport

/// A complete gateway on a test's own database, at a free local port.
final class TestGateway {
    let engine: TestEngine
    let gateway: Gateway
    let server: HTTPServer
    var port: UInt16 { server.boundAddresses.first?.port ?? 0 }

    init(
        _ url: PostgresURL, _ change: (inout GatewaySettings) -> Void = { _ in },
        server changeServer: (inout HTTPServerSettings) -> Void = { _ in },
        secret: String? = nil, feedBasePath: @escaping FeedBasePath = { _, _, completion in completion(.success(nil)) }
    ) throws {
        var settings = GatewaySettings()
        change(&settings)
        let engine = try TestEngine(url) { settings, _ in
            settings.pollMilliseconds = 20
            settings.defaultRules = RulesVersion(seq: 0, set: .allowAll, enforcesIndexes: false)
        }
        var credentials = Gateway.Credentials()
        credentials.acceptsOwner = true
        credentials.administratorSecrets = secret.map { [Secret(Array($0.utf8))] } ?? []
        let gateway = Gateway(
            engine: engine.engine, settings: settings, credentials: credentials,
            logger: Logger(level: .error, descriptor: -1), feedBasePath: feedBasePath)
        self.engine = engine
        self.gateway = gateway
        var serverSettings = HTTPServerSettings()
        serverSettings.addresses = [ListenAddress(host: "127.0.0.1", port: 0)]
        changeServer(&serverSettings)
        server = try HTTPServer(settings: serverSettings) { gateway.makeHandler($0) }
        try server.start()
    }

    func stop() {
        server.stop(deadlineMilliseconds: 0)
        engine.stop()
        gateway.stop()
    }
}

/// Runs `body` with a gateway on a new database.
func withGateway(
    _ change: (inout GatewaySettings) -> Void = { _ in },
    server: (inout HTTPServerSettings) -> Void = { _ in }, _ body: (TestGateway) throws -> Void
) throws {
    try withDatabase { url in
        let gateway = try TestGateway(url, change, server: server)
        defer { gateway.stop() }
        try body(gateway)
    }
}
