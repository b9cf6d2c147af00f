import Runtime

@testable import Gateway
@testable import HTTPServer

extension TestLoop {
    /// Returns the services that the handlers of this loop share.
    func services(_ change: (inout GatewaySettings) -> Void = { _ in }) -> LoopServices {
        var settings = GatewaySettings()
        change(&settings)
        let metrics = GatewayMetrics()
        return LoopServices(
            loop: loop, settings: settings, metrics: metrics, workers: workers, responder: Responder(metrics))
    }
}

extension CallerResolver {
    /// Creates callers with these limits and credentials.
    convenience init(
        _ services: LoopServices, limits: RateLimiterSettings = RateLimiterSettings(),
        credentials: GatewayCredentials = GatewayCredentials()
    ) {
        self.init(Authenticator(credentials), RateLimiter(limits), .silent, services)
    }
}

extension WebClient {
    /// Reads the answer to a request that was sent.
    func answer(isHead: Bool = false) throws -> Response {
        let (status, headers) = try head()
        let length = headers["content-length"].flatMap { Int($0) } ?? 0
        let hasBody = !isHead && status != 204 && status != 304
        return Response(status: status, headers: headers, body: hasBody ? Array(try read(count: length).utf8) : [])
    }
}
