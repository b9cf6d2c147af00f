public import Tree

/// Looks up what is stored at single places, for judging without the whole tree. Called on the judge's thread; it may wait.
public protocol StoredPlaces: AnyObject {
    /// What is stored at a path, whose keys are such as can be stored: nothing, a leaf, or a branch. Of a branch it has to have no more
    /// than one child, and its priority: rules ask for each child by its path. Nil where that can't be found out.
    func node(at path: Path) -> Node?
}
