import Engine
import Rules
import Runtime
import Tree
import Wire

/// Whether a GET may be answered.
enum ReadPermission {
    /// Why the rules, or their indexes, don't let this be read; nil where they do.
    static func refusal(of call: Call, _ snapshot: Snapshot) -> RESTError? {
        let decision = snapshot.rules.set.mayRead(
            call.path, query: .overREST(call.parameters.query), root: snapshot.root, auth: call.auth,
            now: Clock.unixMilliseconds)
        return refusal(of: call, decision, snapshot.rules)
    }

    /// The same where it is known what the rules say.
    static func refusal(of call: Call, _ decision: Decision, _ rules: RulesVersion) -> RESTError? {
        guard decision.isAllowed else { return .permissionDenied }
        if rules.enforcesIndexes, let index = call.parameters.query?.index, !rules.set.isIndexed(index, at: call.path) {
            return .missingIndex(index, at: call.path)
        }
        return nil
    }
}
