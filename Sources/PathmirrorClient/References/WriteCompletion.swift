internal import ClientCore
internal import Foundation

/// What an app wants to be told of one of its writes.
// Safe: the closure, which need not be Sendable, runs once, on the database's callback queue.
struct WriteCompletion: @unchecked Sendable {
    private let body: ((any Error)?, DatabaseReference, Int64?) -> Void
    private let ref: DatabaseReference

    init(_ ref: DatabaseReference, _ body: @escaping ((any Error)?, DatabaseReference) -> Void) {
        self.ref = ref
        self.body = { error, ref, _ in body(error, ref) }
    }

    /// - Parameter body: is also given the seq of the write's entry, where the server says it.
    init(_ ref: DatabaseReference, withSeq body: @escaping ((any Error)?, DatabaseReference, Int64?) -> Void) {
        self.ref = ref
        self.body = body
    }

    /// Nil for success. On the callback queue.
    func tell(_ error: (any Error)?, seq: Int64? = nil) { body(error, ref, seq) }
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

    /// Waits for an operation's completion. The cancellation of the task ends the waiting, not the operation.
    func waiting(_ start: (@escaping Completion) -> Void) async throws -> DatabaseReference {
        try await Answer.wait { answer in
            start { error, ref in answer.give(error, or: ref) }
        }
    }
}
