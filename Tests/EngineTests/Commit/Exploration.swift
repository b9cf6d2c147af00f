/// Visits every state that can be reached from one, breadth first.
struct Exploration<State: Hashable> {
    /// How many states there are.
    private(set) var count = 0
    /// States from which nothing follows.
    private(set) var ends: [State] = []
    /// The first state at which something was wrong, and what, with all states on the shortest way there.
    private(set) var failure: (what: [String], way: [State])?
    /// Whether some state can be reached from itself: something may then never end.
    private(set) var hasCycle = false
    /// More states than were allowed: the rest was not visited.
    private(set) var isCutOff = false

    /// - Parameters:
    ///   - next: the states that can follow one.
    ///   - wrong: what is wrong with a state; empty if nothing is.
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

    /// Takes away what nothing leads to, again and again: what is left are cycles.
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
