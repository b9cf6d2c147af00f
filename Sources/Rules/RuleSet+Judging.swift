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
        _ paths: [Path], root: Node, newRoot: Node, auth: AuthContext, now: Int64
    ) -> Decision {
        if auth.isAdmin { return .allowed }
        if isForThisMachine, auth.isElsewhere {
            return .denied(Denial(reason: .noWriteAllowed, path: paths.first ?? .root, rule: nil))
        }
        if compiled.allowsEveryWrite { return .allowed }
        let surroundings = Surroundings(auth: auth.auth, now: Double(now), query: .plain)
        var walk = Walk(compiled, surroundings, limits: limits, tracer: NoTracer())
        for path in paths {
            if let denial = walk.write(path, root: root, new: newRoot) { return .denied(denial) }
        }
        return .allowed
    }
}
