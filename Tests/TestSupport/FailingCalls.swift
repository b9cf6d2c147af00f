import Glibc
public import Postgres
import Runtime

/// Makes one call of an operation fail: the connection is lost before the call, or after the server has executed it.
/// `run` does so with each call in turn.
///
/// A call is identified by its connection's name, its statement, and the number of earlier calls of that statement.
/// Threads run concurrently, but each thread makes the same calls in every run, except for the number of its polls.
public final class FailingCalls: CallFaults {
    /// One call of an operation.
    public struct Call: Sendable, Hashable, CustomStringConvertible {
        let connection: String
        let statement: String
        /// Counts from 1.
        let occurrence: Int
        let fault: CallFault

        public var description: String {
            "the connection \"\(connection)\" lost \(fault) call \(occurrence) of \"\(statement)\""
        }
    }

    /// The result of all runs.
    public struct Outcome: Sendable {
        /// The number of different calls that the operation makes, counted once per fault.
        public var calls = 0
        /// The number of runs with a fault, and the number of those in which the failing call was made.
        public var runs = 0
        public var fired = 0
        /// The violated expectations, with the preceding fault.
        public var problems: [String] = []
    }

    private struct Kind: Hashable {
        let connection: String
        let statement: String
    }

    private struct State {
        var counts: [Kind: Int] = [:]
        /// In the order of their first calls.
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

    /// Makes every call lose its connection from now on, as if the program had been killed, or ends this.
    public func cut(_ isCut: Bool) { state.withLock { $0.isCut = isCut } }

    // MARK: All calls of an operation

    /// Whether every call fails in turn, instead of a sample.
    public static var takesAll: Bool {
        getenv("PATHMIRROR_FAILING_CALLS").map { String(cString: $0) == "all" } ?? false
    }

    /// The maximum number of failing calls of one statement, for statements that are repeated over time.
    private static let mostOccurrences = 12

    /// Runs an operation once without faults, and then repeatedly with a fault at a different call each time.
    ///
    /// - Parameters:
    ///   - sample: The approximate number of runs unless all calls are to fail. The sample prefers the first call of
    ///     each statement, and then the last statements of each connection.
    ///   - width: The number of concurrent runs.
    ///   - isMeant: Whether calls of connections with that name fail.
    ///   - operation: Runs the operation, waits for the recovery from failures, and returns the violated expectations.
    ///     Called on other threads.
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

    /// The calls that were made, in the order of their statements' first calls, with each statement's last occurrence
    /// after its first.
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
            // If there are too many, the calls that are furthest apart, including the last.
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
