public import HTTPClient
import Runtime

/// The HTTP clients by which gateways pass requests of feeds on to each other. Any thread.
public final class FeedClients: Sendable {
    /// For acknowledgements, status, and pulls that do not wait: the other gateway answers at once.
    let prompt: HTTPClient
    /// For pulls that wait at the other gateway. Each slot is a seat for one of them, so that they take no slot from other requests.
    let waiting: HTTPClient

    public init(prompt: HTTPClient.Settings, waiting: HTTPClient.Settings) throws(HTTPClientError) {
        self.prompt = try HTTPClient(prompt)
        do throws(HTTPClientError) {
            self.waiting = try HTTPClient(waiting)
        } catch {
            self.prompt.stop()
            throw error
        }
    }

    /// Fails the requests under way and ends the threads.
    public func stop() {
        waiting.stop()
        prompt.stop()
    }
}

/// A request that was passed on, whichever client has it now. Any thread.
final class ForwardedRequest: Sendable {
    private struct State: Sendable {
        var turn = 0
        var current: (client: HTTPClient, id: HTTPClient.RequestID)?
        var isCancelled = false
    }

    private let state = MutexBox(State())

    /// Sends a request, instead of one that has ended.
    ///
    /// - Parameter completion: Called once; with `cancelled` only after `cancel`.
    func send(
        _ request: ClientRequest, by client: HTTPClient, _ completion: @escaping HTTPClient.Completion
    ) {
        let turn = state.withLock { state -> Int? in
            state.turn += 1
            return state.isCancelled ? nil : state.turn
        }
        guard let turn else { return completion(.failure(.cancelled)) }
        let id = client.send(request, completion)
        // The request may have ended by now, and another have been sent instead of it.
        let isTooLate = state.withLock { state -> Bool in
            guard state.turn == turn else { return false }
            state.current = (client, id)
            return state.isCancelled
        }
        if isTooLate { client.cancel(id) }
    }

    /// Fails the request with `cancelled`, soon, unless it has ended.
    func cancel() {
        let current = state.withLock { state in
            state.isCancelled = true
            return state.current
        }
        if let current { current.client.cancel(current.id) }
    }
}
