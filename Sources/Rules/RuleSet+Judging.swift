public import Tree

extension RuleSet {
    /// Returns whether this caller may read the path with this query.
    ///
    /// - Parameters:
    ///   - query: nil for a plain read. A query by priority counts as one without a named order, as on the socket. If the
    ///     client named the order, or for REST, pass a `QueryContext`.
    ///   - root: the whole tree.
    ///   - now: milliseconds since 1970.
    public func mayRead(_ path: Path, query: Query?, root: Node, auth: AuthContext, now: Int64) -> Decision {
        mayRead(path, query: QueryContext(query), root: root, auth: auth, now: now)
    }

    /// Returns whether this caller may read the path with a query of these parameters.
    public func mayRead(_ path: Path, query: QueryContext, root: Node, auth: AuthContext, now: Int64) -> Decision {
        if auth.readsEverything { return .allowed }
        if isForThisMachine, auth.isElsewhere {
            return .denied(Denial(reason: .noReadAllowed, path: path, rule: nil))
        }
        if compiled.allowsEveryRead { return .allowed }
        let surroundings = EvaluationEnvironment(auth: auth.auth, now: Double(now), query: query)
        var walk = Walk(compiled, surroundings, limits: limits, tracer: NoTracer())
        return walk.read(path, root: root)
    }

    /// Returns whether `mayRead` could allow this caller with any data, or false if the caller is denied regardless of the
    /// data.
    public func mayEverRead(_ path: Path, query: QueryContext, auth: AuthContext, now: Int64) -> Bool {
        if auth.readsEverything { return true }
        if isForThisMachine, auth.isElsewhere { return false }
        if compiled.allowsEveryRead { return true }
        let surroundings = EvaluationEnvironment(auth: auth.auth, now: Double(now), query: query)
        var walk = Walk(compiled, surroundings, limits: limits, tracer: NoTracer(), knowledge: .callerOnly)
        return walk.mayRead(path, root: .null)
    }

    /// Whether a decision of `mayRead` about a caller at this path holds until the rules change, because neither data nor time
    /// affects it.
    public func isSteadyForReading(_ path: Path) -> Bool {
        let depthOfPath = path.namesPriority ? path.depth - 1 : path.depth
        var node = 0
        for depth in 0...depthOfPath {
            let rule = compiled.nodes[node].read
            if rule >= 0 {
                // Below a rule that allows every read, no rule is evaluated.
                if compiled.rules[Int(rule)].constant == true { return true }
                if !compiled.rules[Int(rule)].isSteady { return false }
            }
            guard depth < depthOfPath, let next = compiled.child(of: node, path[depth]) else { break }
            node = next
        }
        return true
    }

    /// Returns whether this caller may make this write. The whole write is allowed or denied.
    ///
    /// - Parameters:
    ///   - paths: the written paths: one for a set, all paths of an update. A path of a priority is a write to its node.
    ///   - root: the whole tree before the write.
    ///   - newRoot: the whole tree after the write: all changes merged, server values resolved, empty nodes removed.
    ///   - now: the time to which the write's timestamps were resolved, in milliseconds since 1970.
    public func mayWrite(
        _ paths: some Sequence<Path>, root: Node, newRoot: Node, auth: AuthContext, now: Int64
    ) -> Decision {
        if auth.isAdmin { return .allowed }
        if auth.isViewer || isForThisMachine && auth.isElsewhere {
            return .denied(Denial(reason: .noWriteAllowed, path: paths.first { _ in true } ?? .root, rule: nil))
        }
        if compiled.allowsEveryWrite { return .allowed }
        let surroundings = EvaluationEnvironment(auth: auth.auth, now: Double(now), query: .plain)
        var walk = Walk(compiled, surroundings, limits: limits, tracer: NoTracer())
        for path in paths {
            if let denial = walk.write(path, root: root, new: newRoot) { return .denied(denial) }
        }
        return .allowed
    }

    // MARK: Before a write is read

    /// The paths that a write may change, as far as its request shows.
    public enum Reach: Sendable, Equatable {
        /// The path itself.
        case path
        /// Paths at or below it that are not known yet.
        case pathAndBelow
    }

    /// Returns a denial if this caller can't write here with any value and any stored data. Returns nil if the write may be
    /// allowed. Needs neither the value nor the tree, so a denied write need not be parsed, queued or compared.
    public func refusal(
        of path: Path, _ reach: Reach, auth: AuthContext, now: Int64
    ) -> Denial? {
        refusal(of: CollectionOfOne(path), reach, knowing: .callerOnly, root: .null, auth: auth, now: now)
    }

    /// Returns a denial if this caller can't write all of these paths with any values and any stored data.
    public func refusal(of paths: some Sequence<Path>, auth: AuthContext, now: Int64) -> Denial? {
        refusal(of: paths, .path, knowing: .callerOnly, root: .null, auth: auth, now: now)
    }

    /// Returns a denial if this caller can't write here with any value and the present tree.
    public func refusal(of path: Path, _ reach: Reach, root: Node, auth: AuthContext, now: Int64) -> Denial? {
        refusal(of: CollectionOfOne(path), reach, knowing: .dataOnly, root: root, auth: auth, now: now)
    }

    /// Returns a denial if this caller can't write all of these paths with any values and the present tree.
    public func refusal(of paths: some Sequence<Path>, root: Node, auth: AuthContext, now: Int64) -> Denial? {
        refusal(of: paths, .path, knowing: .dataOnly, root: root, auth: auth, now: now)
    }

    private func refusal(
        of paths: some Sequence<Path>, _ reach: Reach, knowing knowledge: Knowledge, root: Node, auth: AuthContext,
        now: Int64
    ) -> Denial? {
        if auth.isAdmin { return nil }
        if auth.isViewer || isForThisMachine && auth.isElsewhere {
            return Denial(reason: .noWriteAllowed, path: paths.first { _ in true } ?? .root, rule: nil)
        }
        if compiled.allowsEveryWrite { return nil }
        let surroundings = EvaluationEnvironment(auth: auth.auth, now: Double(now), query: .plain)
        var walk = Walk(compiled, surroundings, limits: limits, tracer: NoTracer(), knowledge: knowledge)
        for path in paths {
            if let denial = walk.refusal(of: path, below: reach == .pathAndBelow, root: root) { return denial }
        }
        return nil
    }
}
