import Engine
import Rules
import Runtime
import Tree

/// Judges the readers of one place by one state of rules and data: what many of them have in common is asked once, and
/// where neither data nor time has a say nothing is asked again of who was let in.
struct ReaderCheck {
    private let snapshot: Snapshot
    private let path: Path
    private let query: QueryContext
    private let now = Clock.unixMilliseconds
    private let isSteady: Bool
    /// What holds for whoever has not signed in, on this machine and elsewhere.
    private var mayAnybodyRead: (here: Bool?, elsewhere: Bool?)

    init(_ snapshot: Snapshot, _ path: Path, _ query: QueryContext) {
        self.snapshot = snapshot
        self.path = path
        self.query = query
        isSteady = snapshot.rules.set.isSteadyForReading(path)
    }

    /// The rules that readers are judged by.
    var rules: RulesVersion { snapshot.rules }

    /// Whether a reader whom `rules` let in, with the login that it has, need not be judged again.
    func holds(_ rules: RulesVersion?) -> Bool { isSteady && rules === snapshot.rules }

    /// For the members of a group, by the newest state.
    init(_ group: ListenerGroup) {
        let query: QueryContext =
            switch group.key.encoding {
            case .events: .overREST(group.key.query)
            case .realtime, .markedRealtime: QueryContext(group.key.query)
            }
        self.init(group.namespace.snapshot, group.key.path, query)
    }

    mutating func mayRead(_ auth: AuthContext) -> Bool {
        if auth.isAdmin { return true }
        guard case .null = auth.auth else { return ask(auth) }
        if let known = auth.isElsewhere ? mayAnybodyRead.elsewhere : mayAnybodyRead.here { return known }
        let isAllowed = ask(auth)
        if auth.isElsewhere { mayAnybodyRead.elsewhere = isAllowed } else { mayAnybodyRead.here = isAllowed }
        return isAllowed
    }

    private func ask(_ auth: AuthContext) -> Bool {
        snapshot.rules.set.mayRead(path, query: query, root: snapshot.root, auth: auth, now: now).isAllowed
    }
}
