internal import Foundation

/// What an app wants to be told of one of its writes.
// Safe: the closure, which need not be Sendable, runs once, on the database's callback queue.
struct WriteCompletion: @unchecked Sendable {
    private let body: ((any Error)?, DatabaseReference) -> Void
    private let ref: DatabaseReference

    init(_ ref: DatabaseReference, _ body: @escaping ((any Error)?, DatabaseReference) -> Void) {
        self.ref = ref
        self.body = body
    }

    /// Nil for success. On the callback queue.
    func tell(_ error: (any Error)?) { body(error, ref) }
}

extension DatabaseReference {
    typealias Completion = ((any Error)?, DatabaseReference) -> Void

    /// Runs the body with the completion of an operation; what it throws is told to the completion, or ends the process where
    /// there is none.
    func operate(
        _ function: String, _ completion: Completion?,
        _ body: (WriteCompletion?) throws(InvalidArgument) -> Void
    ) {
        let told = completion.map { WriteCompletion(self, $0) }
        do throws(InvalidArgument) {
            guard !path.isInfo else { throw InvalidArgument("\(path) is kept by the client and can't be written") }
            try body(told)
        } catch {
            guard let told else { Misuse.stop(function, error.description) }
            owner.repository.callBack { told.tell(DatabaseError(error, in: function)) }
        }
    }

    /// Waits for an operation's completion.
    func waiting(_ start: (@escaping Completion) -> Void) async throws -> DatabaseReference {
        try await withUnsafeThrowingContinuation { continuation in
            start { error, ref in
                if let error { continuation.resume(throwing: error) } else { continuation.resume(returning: ref) }
            }
        }
    }
}
