import Glibc
public import Postgres
import Runtime

/// Makes one call of an operation fail: the connection is lost before the call, or after the server has done it. `run` does so with each
/// call in turn.
///
/// Which call it is, its connection's name, its statement and how often that was made before say: threads work at the same time, and what
/// each of them does is the same from run to run, but for how often it looks.
public final class FailingCalls: CallFaults {
    /// One call of an operation.
    public struct Call: Sendable, Hashable, CustomStringConvertible {
        let connection: String
        let statement: String
        /// From 1.
        let occurrence: Int
        let fault: CallFault

        public var description: String {
            "the connection \"\(connection)\" lost \(fault) call \(occurrence) of \"\(statement)\""
        }
    }

    /// What has become of all runs.
    public struct Outcome: Sendable {
        /// The different calls that the operation makes, each with both faults.
        public var calls = 0
        /// Runs with a fault, and in how many of these the call was made that was to fail.
        public var runs = 0
        public var fired = 0
        /// What does not hold, and after which fault.
        public var problems: [String] = []
    }

    private struct Kind: Hashable {
        let connection: String
        let statement: String
    }

    private struct State {
        var counts: [Kind: Int] = [:]
        /// In the order in which they were made first.
        var kinds: [Kind] = []
        var hasFired = false
        var isCut = false
    }

    private let target: Call?
    private let isMeant: @Sendable (String) -> Bool
    private let state = MutexBox(State())

    private init(_ target: Call?, _ isMeant: @escaping @Sendable (String) -> Bool) {
        self.target = target
        self.isMeant = isMeant
    }

    public func fault(on connection: String, of statement: String) -> CallFault {
        guard isMeant(connection) else { return .none }
        return state.withLock { state in
            guard !state.isCut else { return .before }
            let kind = Kind(connection: connection, statement: statement)
            let count = (state.counts[kind] ?? 0) + 1
            state.counts[kind] = count
            if count == 1 { state.kinds.append(kind) }
            guard let target, target.connection == connection, target.statement == statement,
                target.occurrence == count
            else { return .none }
            state.hasFired = true
            return target.fault
        }
    }

    /// From now on every call loses its connection, as if the program had been killed; or none does any more.
    public func cut(_ isCut: Bool) { state.withLock { $0.isCut = isCut } }

    // MARK: All calls of an operation

    /// All of them fail in turn, and not a sample of them.
    public static var takesAll: Bool {
        getenv("PATHMIRROR_FAILING_CALLS").map { String(cString: $0) == "all" } ?? false
    }

    /// How many calls of one statement fail, where it is made again and again as time passes.
    private static let mostOccurrences = 12

    /// Does an operation once without faults, and then again and again, each time with a fault at another call.
    ///
    /// - Parameters:
    ///   - sample: about how many runs there are unless all calls are to fail. The first call of each statement is in the sample before
    ///     others are, and the last statements of each connection before others.
    ///   - width: how many runs there are at a time.
    ///   - isMeant: whether calls of connections of that name fail.
    ///   - operation: does it, waits until whatever has failed has recovered, and tells what does not hold then. Called on other threads.
    public static func run(
        sample: Int, width: Int = 4, of isMeant: @escaping @Sendable (_ connection: String) -> Bool = { _ in true },
        _ operation: @escaping @Sendable (FailingCalls) throws -> [String]
    ) -> Outcome {
        var outcome = Outcome()
        let clean = FailingCalls(nil, isMeant)
        outcome.problems = attempt(clean, operation).map { "without a fault: \($0)" }
        guard outcome.problems.isEmpty else { return outcome }
        let all = clean.calls()
        outcome.calls = all.count
        let chosen = takesAll ? all : Self.sample(all, sample)
        let queue = MutexBox(chosen[...])
        let results = MutexBox(outcome)
        let threads = (0..<width).map { index in
            Thread(name: "failing-\(index)") {
                while let call = queue.withLock({ $0.popFirst() }) {
                    let calls = FailingCalls(call, isMeant)
                    let problems = attempt(calls, operation)
                    results.withLock { results in
                        results.runs += 1
                        if calls.state.withLock({ $0.hasFired }) { results.fired += 1 }
                        results.problems += problems.map { "\(call): \($0)" }
                    }
                }
            }
        }
        for thread in threads { thread.join() }
        return results.withLock { $0 }
    }

    private static func attempt(
        _ calls: FailingCalls, _ operation: (FailingCalls) throws -> [String]
    ) -> [String] {
        do {
            return try operation(calls)
        } catch {
            return ["it ended with \(error)"]
        }
    }

    /// The calls that were made, in the order of their statements' first ones; for each the last occurrence behind the first.
    private func calls() -> [Call] {
        let (kinds, counts) = state.withLock { ($0.kinds, $0.counts) }
        return kinds.flatMap { kind -> [Call] in
            let count = counts[kind] ?? 0
            return (1...max(1, min(count, Self.mostOccurrences))).flatMap { occurrence in
                [CallFault.before, .after].map {
                    Call(connection: kind.connection, statement: kind.statement, occurrence: occurrence, fault: $0)
                }
            }
        }
    }

    private static func sample(_ all: [Call], _ most: Int) -> [Call] {
        var rest = all
        var chosen: [Call] = []
        func take(_ isWanted: (Call) -> Bool) {
            guard chosen.count < most else { return }
            let wanted = rest.filter(isWanted)
            let room = most - chosen.count
            // Where there are too many, those that are as far from one another as they can be, and the last.
            let taken =
                wanted.count <= room
                ? wanted : (0..<room).map { wanted[wanted.count - 1 - $0 * wanted.count / room] }
            chosen += taken
            let known = Set(taken)
            rest.removeAll { known.contains($0) }
        }
        var last: [String: [String]] = [:]
        for call in all where last[call.connection]?.contains(call.statement) != true {
            last[call.connection, default: []].append(call.statement)
        }
        take { $0.occurrence == 1 && (last[$0.connection]?.suffix(3).contains($0.statement) ?? false) }
        take { $0.occurrence == 1 }
        take { $0.occurrence == 2 }
        take { _ in true }
        return chosen
    }
}
