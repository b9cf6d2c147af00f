import HTTPServer
import Runtime

/// An endpoint on a free loopback port that records its requests.
final class EndpointServer: Sendable {
    struct Arrival: Sendable {
        let line: String
        let id: String?
        let timestamp: String?
        let signature: String?
        let contentType: String?
        let authorization: String?
        let body: [UInt8]
    }

    /// Answers a request, given the number of earlier requests.
    typealias Answer = @Sendable (Int, HTTPExchange) -> Void

    private let server: HTTPServer
    private let arrivals = MutexBox<[Arrival]>([])

    private final class Handler: HTTPLoopHandler {
        let arrivals: MutexBox<[Arrival]>
        let answer: Answer

        init(_ arrivals: MutexBox<[Arrival]>, _ answer: @escaping Answer) {
            self.arrivals = arrivals
            self.answer = answer
        }

        func requestReceived(_ request: HTTPRequest, _ exchange: HTTPExchange) {
            let arrival = Arrival(
                line: "\(request.method) \(request.targetText)", id: request.headerText("webhook-id"),
                timestamp: request.headerText("webhook-timestamp"), signature: request.headerText("webhook-signature"),
                contentType: request.headerText("content-type"), authorization: request.headerText("authorization"),
                body: request.body)
            let number = arrivals.withLock { arrivals in
                arrivals.append(arrival)
                return arrivals.count - 1
            }
            answer(number, exchange)
        }

        func loopWillDrain() {}
        func loopWillStop() {}
    }

    init(_ answer: @escaping Answer = { _, exchange in exchange.respond(status: 200) }) throws {
        let arrivals = arrivals
        server = try HTTPServer(settings: HTTPServerSettings()) { _ in Handler(arrivals, answer) }
        try server.start()
    }

    var arrived: [Arrival] { arrivals.withLock { $0 } }

    func url(_ path: String) -> String { "http://127.0.0.1:\(server.boundAddresses.first?.port ?? 0)\(path)" }

    deinit { server.stop(deadlineMilliseconds: 0) }
}
