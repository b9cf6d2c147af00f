import Runtime

/// Where a committer waits for more writes of the namespace that it has; true: they are there.
typealias GatheringDesk = Condition<Bool>
