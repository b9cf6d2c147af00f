/// Visits every state reachable from a first one, breadth first.
struct Exploration<State: Hashable> {
    /// The number of states visited.
    private(set) var count = 0
    /// The states without successors.
    private(set) var ends: [State] = []
    /// The first state with an error, the errors, and all states on the shortest way there.
    private(set) var failure: (what: [String], way: [State])?
    /// Whether a state is reachable from itself: the system may then never end.
    private(set) var hasCycle = false
    /// Whether the limit of states was exceeded and the rest was not visited.
    private(set) var isCutOff = false

    /// - Parameters:
    ///   - next: returns the states that can follow a state.
    ///   - wrong: returns the errors of a state; empty if there are none.
    init(from first: State, limit: Int = 2_000_000, next: (State) -> [State], wrong: (State, _ isEnd: Bool) -> [String])
    {
        var numbers: [State: Int] = [first: 0]
        var states = [first]
        var parents = [-1]
        var successors: [[Int]] = []
        var position = 0
        while position < states.count {
            let state = states[position]
            let following = next(state)
            if following.isEmpty { ends.append(state) }
            let problems = wrong(state, following.isEmpty)
            if !problems.isEmpty {
                failure = (problems, Self.way(to: position, states, parents))
                break
            }
            var targets: [Int] = []
            for one in following {
                if let known = numbers[one] {
                    targets.append(known)
                    continue
                }
                guard states.count < limit else {
                    isCutOff = true
                    continue
                }
                numbers[one] = states.count
                targets.append(states.count)
                states.append(one)
                parents.append(position)
            }
            successors.append(targets)
            position += 1
        }
        count = states.count
        if failure == nil { hasCycle = Self.hasCycle(successors) }
    }

    private static func way(to last: Int, _ states: [State], _ parents: [Int]) -> [State] {
        var way: [State] = []
        var position = last
        while position >= 0 {
            way.append(states[position])
            position = parents[position]
        }
        return way.reversed()
    }

    /// Removes states without predecessors until none is left: the remaining states are on cycles or after them.
    private static func hasCycle(_ successors: [[Int]]) -> Bool {
        var incoming = [Int](repeating: 0, count: successors.count)
        for targets in successors { for target in targets { incoming[target] += 1 } }
        var free = incoming.indices.filter { incoming[$0] == 0 }
        var taken = 0
        while let one = free.popLast() {
            taken += 1
            for target in successors[one] {
                incoming[target] -= 1
                if incoming[target] == 0 { free.append(target) }
            }
        }
        return taken < successors.count
    }
}
