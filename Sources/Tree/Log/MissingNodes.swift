/// Finds the nodes that an earlier tree had and a later tree lacks.
public enum MissingNodes {
    /// Returns the topmost missing nodes, each with everything that was below it.
    ///
    /// A node is left out if the later tree has a value in its way: a leaf above it. A node that is there in both trees is
    /// not missing, whatever its value or its priority is now. So writing the result changes and removes nothing.
    ///
    /// - Parameter path: the path below which to look.
    public static func find(of earlier: Node, in later: Node, below path: Path) -> [Change] {
        var now = later
        for key in path.keys {
            if now.isLeaf { return [] }
            now = now.child(key)
        }
        var found: [Change] = []
        walk(earlier[path], now, path, &found)
        return found
    }

    private static func walk(_ then: Node, _ now: Node, _ path: Path, _ found: inout [Change]) {
        if then.isNull || then.isIdentical(to: now) { return }
        if now.isNull {
            found.append(Change(path: path, value: then))
        } else if case .branch(let branch) = then, now.isBranch {
            for entry in branch.children { walk(entry.node, now.child(entry.key), path.appending(entry.key), &found) }
        }
    }
}
