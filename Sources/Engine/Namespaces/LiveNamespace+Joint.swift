import Synchronization

/// A namespace among others in one transaction. For the committer that has it.
extension LiveNamespace {
    /// What the working committer has to do, if that may be done together with what others have to do.
    func takeJointTask(_ room: JointRoom) -> NamespaceTask? {
        scheduling.withLock { $0.takeJointTask(room, settings, known: published.snapshot.seq) }
    }

    /// It has made others wait, and goes alone for a while.
    func standAside() { scheduling.withLock { $0.standAside() } }
}
