import Engine
import Rules
import Runtime
import Tree
import Wire

/// Whether a GET may be answered.
enum ReadPermission {
    /// Why the rules, or their indexes, don't let this be read; nil where they do.
    static func refusal(of call: Call, _ snapshot: Snapshot) -> RESTError? {
        let query = call.parameters.query
        let rules = snapshot.rules
        let decision = rules.set.mayRead(
            call.path, query: .overREST(query), root: snapshot.root, auth: call.auth, now: Clock.unixMilliseconds)
        guard decision.isAllowed else { return .permissionDenied }
        if rules.enforcesIndexes, let index = query?.index, !rules.set.isIndexed(index, at: call.path) {
            return .missingIndex(index, at: call.path)
        }
        return nil
    }
}
