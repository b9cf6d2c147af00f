import Synchronization
import Tree

@testable import PathmirrorClient

/// The writes that the model's clients have made, their outcomes as reported to the clients, and the comparison with
/// the server's log.
///
/// A write is found in the log by a text that no other write has (`#W7`), or by its content if it has none.
final class WriteJournal: Sendable {
    enum Outcome: Sendable, Equatable {
        case pending
        case done
        /// The server answered that it was not executed.
        case refused(DatabaseError.Code)
        /// Unknown, as the connection or the client ended first.
        case unknown
        /// The client ended, and has the write on disk.
        case kept
    }

    enum Kind: Sendable { case write, transaction, onDisconnect }

    struct Item: Sendable {
        let number: Int
        let client: Int
        let kind: Kind
        let identity: String
        /// Whether the rules refuse it.
        let isForbidden: Bool
        let what: String
        /// The number of the client's connections that had ended when it was sent; `lossesAfter`: when it was answered.
        let lossesBefore: Int
        var lossesAfter: Int?
        var outcome = Outcome.pending
        /// Whether the app has withdrawn it, so that it need not be executed.
        var isRolledBack = false
    }

    private struct State {
        var items: [Item] = []
        var problems: [String] = []
    }

    private let state = Mutex(State())

    var items: [Item] { state.withLock { $0.items } }
    var problems: [String] { state.withLock { $0.problems } }

    /// - Parameter identity: nil for a text of its own, which `mark` returns.
    func begin(
        _ kind: Kind, of client: Int, _ what: String, identity: String? = nil, isForbidden: Bool = false, losses: Int
    ) -> Item {
        state.withLock { state in
            let number = state.items.count
            let item = Item(
                number: number, client: client, kind: kind, identity: identity ?? Self.mark(kind, number),
                isForbidden: isForbidden, what: what, lossesBefore: losses)
            state.items.append(item)
            return item
        }
    }

    /// Returns the text by which the next item will be found.
    func nextMark(_ kind: Kind) -> String { state.withLock { Self.mark(kind, $0.items.count) } }

    private static func mark(_ kind: Kind, _ number: Int) -> String {
        switch kind {
        case .write: "#W\(number);"
        case .transaction: "#T\(number);"
        case .onDisconnect: "#D\(number);"
        }
    }

    /// Records the outcome that a completion received; it may receive only one.
    func end(_ item: Item, _ outcome: Outcome, losses: Int) {
        state.withLock { state in
            let before = state.items[item.number].outcome
            if before != .pending { state.problems.append("\(item.what) is told \(outcome) after \(before)") }
            state.items[item.number].outcome = outcome
            state.items[item.number].lossesAfter = losses
            // Transactions at one path are sent together, and refused together.
            if case .refused(.permissionDenied) = outcome, !item.isForbidden, item.kind != .transaction {
                state.problems.append("\(item.what) is refused, though the rules allow it")
            }
            if outcome == .done, item.isForbidden {
                state.problems.append("\(item.what) is said to be done, though the rules forbid it")
            }
        }
    }

    /// Records that a client's disconnect operations need not be executed.
    func rollBackOperations(of client: Int) {
        state.withLock { state in
            for index in state.items.indices
            where state.items[index].client == client && state.items[index].kind == .onDisconnect {
                state.items[index].isRolledBack = true
            }
        }
    }

    /// Records that a client purges its writes, including those of its earlier runs.
    func purge(of client: Int) {
        state.withLock { state in
            for index in state.items.indices
            where state.items[index].client == client && state.items[index].outcome == .kept {
                state.items[index].outcome = .unknown
            }
        }
    }

    /// Records that a client ended: it will not receive the outstanding outcomes.
    func clientEnded(_ client: Int, keepsWrites: Bool, losses: Int) {
        state.withLock { state in
            for index in state.items.indices
            where state.items[index].client == client && state.items[index].outcome == .pending {
                let isKept = keepsWrites && state.items[index].kind == .write
                state.items[index].outcome = isKept ? .kept : .unknown
                state.items[index].lossesAfter = nil
            }
        }
    }

    /// Returns the items without an outcome.
    func pending(of client: Int? = nil) -> [Item] {
        items.filter { $0.outcome == .pending && (client == nil || $0.client == client) }
    }

    // MARK: The log

    /// Compares with the log's entries: writes reported as done are present, once however many connections ended
    /// meanwhile; refused ones are absent; and a client's writes are in the order of their calls.
    func check(_ log: [LogLine], losses: [Int]) -> [String] {
        let positions = Self.positions(log)
        var expected: [String: (low: Int, high: Int, what: [String])] = [:]
        for item in items where item.kind != .transaction {
            let (low, high) = bounds(item, losses: losses)
            var sum = expected[item.identity] ?? (0, 0, [])
            sum.low += low
            sum.high += high
            sum.what.append("\(item.what) (\(item.outcome))")
            expected[item.identity] = sum
        }
        var problems = problems
        for (identity, sum) in expected {
            let count = positions[identity]?.count ?? 0
            if count < sum.low || count > sum.high {
                problems.append("\(count) times in the log, not \(sum.low) to \(sum.high): \(sum.what)")
            }
        }
        for item in items where item.kind == .transaction && !item.identity.hasPrefix("count") {
            let count = positions[item.identity]?.count ?? 0
            switch item.outcome {
            case .done where count == 0: problems.append("\(item.what) was done, and is not in the log")
            case .refused where count > 0:
                problems.append("\(item.what) was not done (\(item.outcome)), and is in the log")
            default: break
            }
        }
        return problems + checkOrder(positions)
    }

    /// Returns how often a write may be in the log.
    private func bounds(_ item: Item, losses: [Int]) -> (Int, Int) {
        // A write is sent again with its name if a connection ended before its answer: it is not executed again.
        // Disconnect operations are sent again on each connection.
        let again = item.kind == .write ? 0 : (item.lossesAfter ?? (losses[item.client] + 1)) - item.lossesBefore
        if item.isForbidden { return (0, 0) }
        if item.isRolledBack { return (0, 1 + again) }
        return switch item.outcome {
        case .done: (1, 1 + again)
        // A priority of a node that no longer exists is refused.
        case .kept: (item.identity.contains("/.priority=") ? 0 : 1, 1 + again)
        case .refused: (0, again)
        case .pending, .unknown: (0, 1 + again)
        }
    }

    private func checkOrder(_ positions: [String: [Int]]) -> [String] {
        var problems: [String] = []
        var last: [Int: (position: Int, what: String)] = [:]
        for item in items where item.kind == .write && item.outcome == .done && item.identity.hasPrefix("#") {
            guard let position = positions[item.identity]?.first else { continue }
            if let before = last[item.client], before.position > position {
                problems.append("\(item.what) is in the log before \(before.what)")
            }
            last[item.client] = (position, item.what)
        }
        return problems
    }

    /// Returns the indices of each write in the log.
    private static func positions(_ log: [LogLine]) -> [String: [Int]] {
        var positions: [String: [Int]] = [:]
        for (index, line) in log.enumerated() where !line.isByAdministrator {
            let content = line.content
            var marks = Set(content.matches(of: #/#[WTD]\d+;/#).map { String($0.output) })
            // A transaction copies other clients' values.
            if line.operation == "transaction" { marks = marks.filter { $0.hasPrefix("#T") } }
            if marks.isEmpty, ["set", "update", "remove"].contains(line.operation) { marks = [content] }
            for mark in marks { positions[mark, default: []].append(index) }
        }
        return positions
    }
}
