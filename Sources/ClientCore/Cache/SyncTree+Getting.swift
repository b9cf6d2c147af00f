public import Tree
import Wire

extension SyncTree {
    /// The server has answered a question for what a query selects. Who listens and has not been sent it yet has it from
    /// here; what nobody listens to is kept for later, where anything is.
    ///
    /// What is known completely already is brought up to date by its own listen, in order: the answer adds nothing.
    public func applyAnswer(_ value: Node, of spec: QuerySpec, seq: Int64?) -> SyncEffects {
        guard !serverValue(of: spec).isComplete else { return SyncEffects() }
        let mark = seq.map { LogMark(seq: $0) }
        cache?.keep(value, of: spec, mark)
        guard spec.loadsAllData else {
            guard let place = root.find(spec.path.keys[...]), let view = place.view(of: spec.query), view.tag != nil
            else { return SyncEffects() }
            view.own = ServerSet(node: spec.query.select(from: value), isComplete: true, mark: mark)
            view.ownChanges = nil
            return refresh(view, at: place)
        }
        var touched = Touched.nothing
        absorb(value, at: spec.path, isMerge: false, mark, &touched)
        return refresh(touched)
    }
}
