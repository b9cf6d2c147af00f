internal import Synchronization

/// The result for which a task waits: the answer of a callback or the task's cancellation, whichever comes first.
/// Safe to use from any thread.
final class Answer<Value: Sendable>: Sendable {
    private enum State {
        case open
        case awaited(UnsafeContinuation<Value, any Error>)
        case given(Result<Value, any Error>)
        case over
    }

    private let state = Mutex(State.open)

    /// Runs `start` at once and waits until an answer is given.
    ///
    /// - Throws: The error of the answer, or `CancellationError` as soon as the task is cancelled. Cancellation does not undo
    ///   operations that were started.
    static func wait(_ start: (Answer) -> Void) async throws -> Value {
        let answer = Answer()
        return try await withTaskCancellationHandler {
            start(answer)
            return try await withUnsafeThrowingContinuation { answer.hand(to: $0) }
        } onCancel: {
            answer.give(.failure(CancellationError()))
        }
    }

    /// Gives the answer. Only the first call counts.
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

    /// Gives the error if there is one, and otherwise the value.
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
