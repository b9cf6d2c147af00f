import Postgres
import Runtime

/// Where a committer waits for more writes of the namespace that it has; true: they are there.
typealias GatheringDesk = Condition<Bool>

/// How a committer that waits for more writes is told that they are there. Any thread; never blocks.
protocol GatheringBell: AnyObject, Sendable {
    func ring()
}

extension GatheringDesk: GatheringBell where Value == Bool {
    func ring() { signal { $0 = true } }
}

extension WakeHandle: GatheringBell {
    func ring() { wake() }
}
