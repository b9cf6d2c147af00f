import Synchronization
import Tree

@testable import PathmirrorClient

/// All that the model's clients have asked to be written, what became of it as they were told, and how that is compared
/// with the server's log.
///
/// A write is found in the log by a text that is in no other (`#W7`), or by its content where it has none.
final class WriteJournal: Sendable {
    enum Outcome: Sendable, Equatable {
        case pending
        case done
        /// The server said that it was not done.
        case refused(DatabaseError.Code)
        /// Nobody can say: the connection or the client ended first.
        case unknown
        /// The client ended, and has it on disk.
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
        /// How many connections of the client had ended, and when it was answered.
        let lossesBefore: Int
        var lossesAfter: Int?
        var outcome = Outcome.pending
        /// Whether the app has said that it need not be done.
        var isTakenBack = false
    }

    private struct State {
        var items: [Item] = []
        var problems: [String] = []
    }

    private let state = Mutex(State())

    var items: [Item] { state.withLock { $0.items } }
    var problems: [String] { state.withLock { $0.problems } }

    /// - Parameter identity: nil for a text of its own, which `mark` gives.
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

    /// The text that the next item will be found by.
    func nextMark(_ kind: Kind) -> String { state.withLock { Self.mark(kind, $0.items.count) } }

    private static func mark(_ kind: Kind, _ number: Int) -> String {
        switch kind {
        case .write: "#W\(number);"
        case .transaction: "#T\(number);"
        case .onDisconnect: "#D\(number);"
        }
    }

    /// What its completion was told; once.
    func end(_ item: Item, _ outcome: Outcome, losses: Int) {
        state.withLock { state in
            let before = state.items[item.number].outcome
            if before != .pending { state.problems.append("\(item.what) is told \(outcome) after \(before)") }
            state.items[item.number].outcome = outcome
            state.items[item.number].lossesAfter = losses
            // Transactions at one place are sent together, and refused together.
            if case .refused(.permissionDenied) = outcome, !item.isForbidden, item.kind != .transaction {
                state.problems.append("\(item.what) is refused, though the rules allow it")
            }
            if outcome == .done, item.isForbidden {
                state.problems.append("\(item.what) is said to be done, though the rules forbid it")
            }
        }
    }

    /// A client's operations for its connection's end need not be done.
    func takeBackOperations(of client: Int) {
        state.withLock { state in
            for index in state.items.indices
            where state.items[index].client == client && state.items[index].kind == .onDisconnect {
                state.items[index].isTakenBack = true
            }
        }
    }

    /// A client takes back its writes, those of its earlier runs too.
    func purge(of client: Int) {
        state.withLock { state in
            for index in state.items.indices
            where state.items[index].client == client && state.items[index].outcome == .kept {
                state.items[index].outcome = .unknown
            }
        }
    }

    /// A client ended: what it had not been told it will not be told.
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

    /// What nobody was told of.
    func pending(of client: Int? = nil) -> [Item] {
        items.filter { $0.outcome == .pending && (client == nil || $0.client == client) }
    }

    // MARK: The log

    /// Compares with the log's entries: what was said to be done is there, writes once however many connections ended meanwhile;
    /// what was refused isn't; and a client's writes are there in the order of their calls.
    func check(_ log: [LogLine], losses: [Int]) -> [String] {
        let places = Self.places(log)
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
            let count = places[identity]?.count ?? 0
            if count < sum.low || count > sum.high {
                problems.append("\(count) times in the log, not \(sum.low) to \(sum.high): \(sum.what)")
            }
        }
        for item in items where item.kind == .transaction && !item.identity.hasPrefix("count") {
            let count = places[item.identity]?.count ?? 0
            switch item.outcome {
            case .done where count == 0: problems.append("\(item.what) was done, and is not in the log")
            case .refused where count > 0:
                problems.append("\(item.what) was not done (\(item.outcome)), and is in the log")
            default: break
            }
        }
        return problems + checkOrder(places)
    }

    /// How often a write may be in the log.
    private func bounds(_ item: Item, losses: [Int]) -> (Int, Int) {
        // A write that is sent again, as a connection ended before its answer, has its name: it is not done again. What is to be
        // done when a connection ends is asked for again with each.
        let again = item.kind == .write ? 0 : (item.lossesAfter ?? (losses[item.client] + 1)) - item.lossesBefore
        if item.isForbidden { return (0, 0) }
        if item.isTakenBack { return (0, 1 + again) }
        return switch item.outcome {
        case .done: (1, 1 + again)
        // A priority of what isn't there by then is refused.
        case .kept: (item.identity.contains("/.priority=") ? 0 : 1, 1 + again)
        case .refused: (0, again)
        case .pending, .unknown: (0, 1 + again)
        }
    }

    private func checkOrder(_ places: [String: [Int]]) -> [String] {
        var problems: [String] = []
        var last: [Int: (place: Int, what: String)] = [:]
        for item in items where item.kind == .write && item.outcome == .done && item.identity.hasPrefix("#") {
            guard let place = places[item.identity]?.first else { continue }
            if let before = last[item.client], before.place > place {
                problems.append("\(item.what) is in the log before \(before.what)")
            }
            last[item.client] = (place, item.what)
        }
        return problems
    }

    /// Where in the log each write is.
    private static func places(_ log: [LogLine]) -> [String: [Int]] {
        var places: [String: [Int]] = [:]
        for (index, line) in log.enumerated() where !line.isByAdministrator {
            let content = line.content
            var marks = Set(content.matches(of: #/#[WTD]\d+;/#).map { String($0.output) })
            // A transaction takes over what others have written.
            if line.operation == "transaction" { marks = marks.filter { $0.hasPrefix("#T") } }
            if marks.isEmpty, ["set", "update", "remove"].contains(line.operation) { marks = [content] }
            for mark in marks { places[mark, default: []].append(index) }
        }
        return places
    }
}
