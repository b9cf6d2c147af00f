internal import Synchronization

/// What a task waits for: the answer that a callback brings, or the task's cancellation, whichever comes first. Safe to use from
/// any thread.
final class Answer<Value: Sendable>: Sendable {
    private enum State {
        case open
        case awaited(UnsafeContinuation<Value, any Error>)
        case given(Result<Value, any Error>)
        case over
    }

    private let state = Mutex(State.open)

    /// Runs `start` at once and waits until it, or something that it has begun, gives the answer.
    ///
    /// - Throws: what the answer says, or `CancellationError` as soon as the task is cancelled. That takes back nothing of what
    ///   was begun.
    static func wait(_ start: (Answer) -> Void) async throws -> Value {
        let answer = Answer()
        return try await withTaskCancellationHandler {
            start(answer)
            return try await withUnsafeThrowingContinuation { answer.hand(to: $0) }
        } onCancel: {
            answer.give(.failure(CancellationError()))
        }
    }

    /// Only the first call counts.
    func give(_ result: Result<Value, any Error>) {
        let continuation: UnsafeContinuation<Value, any Error>? = state.withLock { state in
            switch state {
            case .open: state = .given(result)
            case .awaited(let continuation):
                state = .over
                return continuation
            case .given, .over: break
            }
            return nil
        }
        continuation?.resume(with: result)
    }

    /// The error if there is one, the value otherwise.
    func give(_ error: (any Error)?, or value: Value) {
        if let error { give(.failure(error)) } else { give(.success(value)) }
    }

    private func hand(to continuation: UnsafeContinuation<Value, any Error>) {
        let result: Result<Value, any Error>? = state.withLock { state in
            guard case .given(let result) = state else {
                state = .awaited(continuation)
                return nil
            }
            state = .over
            return result
        }
        if let result { continuation.resume(with: result) }
    }
}
