internal import ClientCore
internal import Tree

/// A question for data as an app asks it.
// Safe: the completion, which need not be Sendable, runs once, on the database's callback queue.
struct GetRequest: @unchecked Sendable {
    let spec: QuerySpec
    private let ref: DatabaseReference
    private let completion: ((any Error)?, DataSnapshot?) -> Void

    init(query: DatabaseQuery, completion: @escaping ((any Error)?, DataSnapshot?) -> Void) {
        spec = query.spec
        ref = query.ref
        self.completion = completion
    }

    /// On the callback queue.
    ///
    /// - Parameter seq: as of which entry the value is, if that is known.
    func tell(_ node: Node, seq: Int64?) {
        completion(nil, DataSnapshot(ref: ref, node: node, index: spec.query.index, seq: seq))
    }
    /// On the callback queue.
    func tell(_ error: DatabaseError) { completion(error, nil) }
}
