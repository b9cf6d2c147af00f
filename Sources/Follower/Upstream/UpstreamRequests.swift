internal import HTTPClient
internal import Runtime

/// Sends HTTP requests to an upstream and its token endpoint, and waits for the answers.
final class UpstreamRequests: Sendable {
    private let client: HTTPClient
    /// Requests in flight, which `cancel` ends.
    private let state = MutexBox<State>(State())

    private struct State: Sendable {
        var id: HTTPClient.RequestID?
        var isCancelled = false
    }

    init(_ client: HTTPClient) { self.client = client }

    /// Sends a request and waits until its answer or its timeout.
    func perform(_ request: HTTPClientRequest) throws(HTTPClientError) -> ClientResponse {
        let answer = Condition<Result<ClientResponse, HTTPClientError>?>(nil)
        if state.withLock({ $0.isCancelled }) { throw .cancelled }
        let id = client.send(request) { result in answer.signal { $0 = result } }
        let isCancelled = state.withLock { state in
            state.id = id
            return state.isCancelled
        }
        if isCancelled { client.cancel(id) }
        guard let result = answer.wait(until: { $0 }) else { throw .cancelled }
        return try result.get()
    }

    /// Fails the present request and all later ones, so that a thread that waits for one can end.
    func cancel() {
        let id = state.withLock { state in
            state.isCancelled = true
            return state.id
        }
        if let id { client.cancel(id) }
    }
}
