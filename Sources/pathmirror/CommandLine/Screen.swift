import Synchronization

/// What a console remembers: whether a progress line stands on the terminal, and whether results were lost.
///
/// Threads take turns on it, as one may tell how long the other's work takes.
final class Screen: Sendable {
    /// Held while somebody writes: whether a progress line stands there.
    private let turn = Mutex(false)
    private let lost = Mutex<Int32?>(nil)

    /// The number of the first error of writing results.
    var failure: Int32? { lost.withLock { $0 } }

    func note(failure: Int32) { lost.withLock { if $0 == nil { $0 = failure } } }

    /// Writes what is to stay, in the place of the progress line where there is one.
    func writing<Result>(clearing clear: () -> Void, _ body: () -> Result) -> Result {
        turn.withLock { hasLine in
            if hasLine { clear() }
            hasLine = false
            return body()
        }
    }

    /// Writes another progress line.
    func replaceLine(isEmpty: Bool, _ body: () -> Void) {
        turn.withLock { hasLine in
            // There is nothing to clear where nothing stands.
            guard hasLine || !isEmpty else { return }
            hasLine = !isEmpty
            body()
        }
    }
}
