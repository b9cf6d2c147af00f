import Synchronization

/// A namespace among others in one transaction. For the committer that has it.
extension LiveNamespace {
    /// What the working committer has to do, if that may be done together with what others have to do.
    func takeJointTask(_ room: JointRoom) -> NamespaceTask? {
        scheduling.withLock { $0.takeJointTask(room, settings, at: published.snapshot) }
    }

    /// A batch of it was worked for among those of others, and has kept them from going on for long, or not.
    func wentWithOthers(isSlow: Bool) { scheduling.withLock { $0.wentWithOthers(isSlow: isSlow) } }

    /// It has made others wait, and goes alone for a while.
    func standAside() { scheduling.withLock { $0.standAside() } }
}
