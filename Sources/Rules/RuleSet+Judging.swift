public import Tree

extension RuleSet {
    /// May this caller read the path with this query?
    ///
    /// - Parameters:
    ///   - query: nil for a plain read. A query by priority counts as one that names no order, as on the socket; where
    ///     the client named it, or over REST, say so with a `QueryContext`.
    ///   - root: the whole tree.
    ///   - now: milliseconds since 1970.
    public func mayRead(_ path: Path, query: Query?, root: Node, auth: AuthContext, now: Int64) -> Decision {
        mayRead(path, query: QueryContext(query), root: root, auth: auth, now: now)
    }

    /// May this caller read the path with a query of these parameters?
    public func mayRead(_ path: Path, query: QueryContext, root: Node, auth: AuthContext, now: Int64) -> Decision {
        if auth.isAdmin { return .allowed }
        if isForThisMachine, auth.isElsewhere {
            return .denied(Denial(reason: .noReadAllowed, path: path, rule: nil))
        }
        if compiled.allowsEveryRead { return .allowed }
        let surroundings = Surroundings(auth: auth.auth, now: Double(now), query: query)
        var walk = Walk(compiled, surroundings, limits: limits, tracer: NoTracer())
        return walk.read(path, root: root)
    }

    /// Whether there may be data with which `mayRead` would let this caller in; false where it is refused whatever is
    /// stored.
    public func mayEverRead(_ path: Path, query: QueryContext, auth: AuthContext, now: Int64) -> Bool {
        if auth.isAdmin { return true }
        if isForThisMachine, auth.isElsewhere { return false }
        if compiled.allowsEveryRead { return true }
        let surroundings = Surroundings(auth: auth.auth, now: Double(now), query: query)
        var walk = Walk(compiled, surroundings, limits: limits, tracer: NoTracer(), knowledge: .callerOnly)
        return walk.mayRead(path, root: .null)
    }

    /// Whether what `mayRead` says of a caller at this path holds until there are other rules: where neither data nor time
    /// has a say in it.
    public func isSteadyForReading(_ path: Path) -> Bool {
        let depthOfPath = path.namesPriority ? path.depth - 1 : path.depth
        var node = 0
        for depth in 0...depthOfPath {
            let rule = compiled.nodes[node].read
            if rule >= 0 {
                // Below a rule that lets everybody in none is asked.
                if compiled.rules[Int(rule)].constant == true { return true }
                if !compiled.rules[Int(rule)].isSteady { return false }
            }
            guard depth < depthOfPath, let next = compiled.child(of: node, path[depth]) else { break }
            node = next
        }
        return true
    }

    /// May this caller make this write? All of it, or nothing.
    ///
    /// - Parameters:
    ///   - paths: the places written: one for a set, every one of an update. A path to a priority is a write to its node.
    ///   - root: the whole tree before the write.
    ///   - newRoot: the whole tree after it: all changes merged, server values resolved, empty nodes gone.
    ///   - now: the instant that the write's timestamps resolved to, in milliseconds since 1970.
    public func mayWrite(
        _ paths: some Sequence<Path>, root: Node, newRoot: Node, auth: AuthContext, now: Int64
    ) -> Decision {
        if auth.isAdmin { return .allowed }
        if isForThisMachine, auth.isElsewhere {
            return .denied(Denial(reason: .noWriteAllowed, path: paths.first { _ in true } ?? .root, rule: nil))
        }
        if compiled.allowsEveryWrite { return .allowed }
        let surroundings = Surroundings(auth: auth.auth, now: Double(now), query: .plain)
        var walk = Walk(compiled, surroundings, limits: limits, tracer: NoTracer())
        for path in paths {
            if let denial = walk.write(path, root: root, new: newRoot) { return .denied(denial) }
        }
        return .allowed
    }

    // MARK: Before a write is looked at

    /// What a write reaches, as far as its request says.
    public enum Reach: Sendable, Equatable {
        /// The path itself.
        case path
        /// Places at or below it, which are not known yet.
        case pathAndBelow
    }

    /// Why this caller can't write here, whatever it is that is to be written and whatever is stored; nil where it may
    /// be let in. Takes neither the value nor the tree: what is refused here need not be parsed, queued or compared.
    public func refusal(
        of path: Path, _ reach: Reach, auth: AuthContext, now: Int64
    ) -> Denial? {
        refusal(of: CollectionOfOne(path), reach, knowing: .callerOnly, root: .null, auth: auth, now: now)
    }

    /// The same for several places, of which all have to be let in.
    public func refusal(of paths: some Sequence<Path>, auth: AuthContext, now: Int64) -> Denial? {
        refusal(of: paths, .path, knowing: .callerOnly, root: .null, auth: auth, now: now)
    }

    /// Why this caller can't write here as the tree is, whatever it is that is to be written.
    public func refusal(of path: Path, _ reach: Reach, root: Node, auth: AuthContext, now: Int64) -> Denial? {
        refusal(of: CollectionOfOne(path), reach, knowing: .dataOnly, root: root, auth: auth, now: now)
    }

    /// The same for several places, of which all have to be let in.
    public func refusal(of paths: some Sequence<Path>, root: Node, auth: AuthContext, now: Int64) -> Denial? {
        refusal(of: paths, .path, knowing: .dataOnly, root: root, auth: auth, now: now)
    }

    private func refusal(
        of paths: some Sequence<Path>, _ reach: Reach, knowing knowledge: Knowledge, root: Node, auth: AuthContext,
        now: Int64
    ) -> Denial? {
        if auth.isAdmin { return nil }
        if isForThisMachine, auth.isElsewhere {
            return Denial(reason: .noWriteAllowed, path: paths.first { _ in true } ?? .root, rule: nil)
        }
        if compiled.allowsEveryWrite { return nil }
        let surroundings = Surroundings(auth: auth.auth, now: Double(now), query: .plain)
        var walk = Walk(compiled, surroundings, limits: limits, tracer: NoTracer(), knowledge: knowledge)
        for path in paths {
            if let denial = walk.refusal(of: path, below: reach == .pathAndBelow, root: root) { return denial }
        }
        return nil
    }
}
