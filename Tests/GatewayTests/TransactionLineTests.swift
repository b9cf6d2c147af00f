import Testing
import Tree

@testable import Gateway

/// A line by reference: `#expect` can't change values.
private final class Line {
    private var line = TransactionLine()

    var isEmpty: Bool { line.isEmpty }

    func arrives(_ session: String, mayWait: Bool, at now: Int64) -> Bool {
        line.arrives(session, mayWait: mayWait, at: now)
    }
    func sendsEarly(_ session: String) { line.sendsEarly(session) }
    func wasRefused(_ session: String, at now: Int64) -> TransactionLine.Outcome { line.wasRefused(session, at: now) }
    func leaves(_ session: String, at now: Int64) -> TransactionLine.Outcome { line.leaves(session, at: now) }
    func asks(_ guest: String, at now: Int64) -> TransactionLine.Outcome { line.asks(guest, at: now) }
    func check(_ turn: TransactionLine.Turn, patience: Int64, at now: Int64) -> TransactionLine.Check {
        line.check(turn, patience: patience, at: now)
    }
}

@Suite struct TransactionLineTests {
    private typealias Outcome = TransactionLine.Outcome
    private let line = Line()

    private func turn(_ session: String, _ ticket: UInt64, isGuest: Bool = false) -> TransactionLine.Turn {
        TransactionLine.Turn(session: session, ticket: ticket, isGuest: isGuest)
    }

    @Test func nobodyWaitsWhereNobodyFailed() {
        #expect(line.arrives("a", mayWait: true, at: 0))
        #expect(line.arrives("b", mayWait: true, at: 0))
        #expect(line.isEmpty)
        #expect(line.leaves("a", at: 1) == Outcome())
    }

    @Test func turnsGoRoundInOrder() {
        #expect(line.wasRefused("a", at: 0) == Outcome(next: turn("a", 1)))
        #expect(line.wasRefused("b", at: 0) == Outcome())
        #expect(!line.arrives("c", mayWait: true, at: 0))
        #expect(!line.arrives("b", mayWait: true, at: 0))
        #expect(line.arrives("a", mayWait: true, at: 0))
        #expect(line.leaves("a", at: 1) == Outcome(next: turn("b", 2)))
        #expect(line.leaves("b", at: 2) == Outcome(next: turn("c", 3)))
        // Back again: behind the others.
        #expect(!line.arrives("a", mayWait: true, at: 3))
        #expect(line.leaves("c", at: 4) == Outcome(next: turn("a", 4)))
        #expect(line.leaves("a", at: 5) == Outcome())
        #expect(line.isEmpty)
    }

    @Test func whoMayNotWaitSendsAndKeepsItsPlace() {
        _ = line.wasRefused("a", at: 0)
        #expect(!line.arrives("b", mayWait: true, at: 0))
        line.sendsEarly("b")
        #expect(line.wasRefused("b", at: 0) == Outcome())
        #expect(!line.arrives("c", mayWait: true, at: 0))
        #expect(line.arrives("d", mayWait: false, at: 0))
        #expect(line.leaves("d", at: 0) == Outcome())
        #expect(line.leaves("a", at: 1).next?.session == "b")
    }

    @Test func whoeverLeavesFromTheMiddleIsSkipped() {
        _ = line.wasRefused("a", at: 0)
        for session in ["b", "c", "d"] { _ = line.arrives(session, mayWait: true, at: 0) }
        #expect(line.leaves("b", at: 0) == Outcome())
        #expect(line.leaves("c", at: 0) == Outcome())
        // A new place, not the old one.
        #expect(!line.arrives("b", mayWait: true, at: 0))
        #expect(line.leaves("a", at: 0).next?.session == "d")
        #expect(line.leaves("d", at: 0).next?.session == "b")
    }

    @Test func aTurnEndsWithoutASign() {
        _ = line.wasRefused("a", at: 0)
        _ = line.arrives("b", mayWait: true, at: 10)
        let first = turn("a", 1)
        #expect(line.check(first, patience: 100, at: 60) == .goesOn(40))
        _ = line.arrives("a", mayWait: true, at: 90)
        #expect(line.check(first, patience: 100, at: 100) == .goesOn(90))
        // Its write is under way.
        #expect(line.check(first, patience: 100, at: 500) == .goesOn(100))
        _ = line.wasRefused("a", at: 550)
        #expect(line.check(first, patience: 100, at: 600) == .goesOn(50))
        #expect(line.check(first, patience: 100, at: 650) == .expired(Outcome(next: turn("b", 2))))
        #expect(line.check(first, patience: 100, at: 660) == .over)
    }

    @Test func aTurnOfFailuresEnds() {
        _ = line.wasRefused("a", at: 0)
        _ = line.arrives("b", mayWait: true, at: 0)
        var now: Int64 = 0
        while now < 800 {
            #expect(line.check(turn("a", 1), patience: 100, at: now) != .over)
            _ = line.arrives("a", mayWait: true, at: now)
            _ = line.wasRefused("a", at: now)
            now += 10
        }
        #expect(
            line.check(turn("a", 1), patience: 100, at: now) == .expired(Outcome(next: turn("b", 2), notice: .isDone)))
    }

    @Test func whoFailsInItsTurnHasOtherGatewaysAsked() {
        _ = line.wasRefused("a", at: 0)
        for _ in 1..<TransactionLine.refusalsBeforeAsking { #expect(line.wasRefused("a", at: 0) == Outcome()) }
        #expect(line.wasRefused("a", at: 0) == Outcome(notice: .asks))
        #expect(line.wasRefused("a", at: 0) == Outcome(notice: .asks))
        #expect(line.leaves("a", at: 0) == Outcome(notice: .isDone))
        #expect(line.wasRefused("a", at: 0) == Outcome(next: turn("a", 2)))
        #expect(line.leaves("a", at: 0) == Outcome())
    }

    @Test func aGuestGoesNext() {
        _ = line.wasRefused("a", at: 0)
        _ = line.arrives("b", mayWait: true, at: 0)
        #expect(line.asks("gateway 1", at: 0) == Outcome())
        #expect(line.asks("gateway 1", at: 0) == Outcome())
        #expect(line.leaves("a", at: 0) == Outcome(next: turn("gateway 1", 3, isGuest: true)))
        #expect(!line.arrives("a", mayWait: true, at: 1))
        #expect(line.check(turn("gateway 1", 3, isGuest: true), patience: 100, at: 50) == .goesOn(50))
        _ = line.asks("gateway 1", at: 60)
        #expect(line.check(turn("gateway 1", 3, isGuest: true), patience: 100, at: 100) == .goesOn(60))
        #expect(line.leaves("gateway 1", at: 110) == Outcome(next: turn("b", 2)))
        // And where nobody contends, the first to come waits.
        let empty = Line()
        #expect(empty.asks("gateway 1", at: 0) == Outcome(next: turn("gateway 1", 1, isGuest: true)))
        #expect(!empty.arrives("a", mayWait: true, at: 1))
        #expect(empty.leaves("gateway 1", at: 2) == Outcome(next: turn("a", 2)))
    }

    /// Whatever happens: one turn at a time, everybody who stays has one, and nothing is kept of those who left.
    @Test(arguments: 0..<20) func everybodyHasATurn(seed: Int) {
        var state = UInt64(seed) &* 0x9E37_79B9_7F4A_7C15 | 1
        func dice(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % bound
        }
        let line = Line()
        var turns: [TransactionLine.Turn] = []
        var inLine: Set<String> = []
        func follow(_ outcome: Outcome) {
            if let next = outcome.next {
                #expect(inLine.contains(next.session))
                turns.append(next)
            }
        }
        for step in 0..<2_000 {
            let session = "\(dice(12))"
            switch dice(4) {
            case 0:
                if !line.arrives(session, mayWait: dice(4) > 0, at: Int64(step)), inLine.insert(session).inserted {
                    #expect(!line.isEmpty)
                }
            case 1:
                inLine.insert(session)
                follow(line.wasRefused(session, at: Int64(step)))
            case 2:
                inLine.remove(session)
                follow(line.leaves(session, at: Int64(step)))
            default:
                inLine.insert("guest")
                follow(line.asks("guest", at: Int64(step)))
            }
            #expect(line.isEmpty == inLine.isEmpty)
        }
        // Once nobody comes any more all are served, each once.
        var served: [String] = []
        while let turn = turns.last, inLine.remove(turn.session) != nil {
            served.append(turn.session)
            follow(line.leaves(turn.session, at: 9_999))
        }
        #expect(Set(served).count == served.count && inLine.isEmpty && line.isEmpty)
    }

    @Test func notices() {
        for path in ["/", "/a/b c/é", "/x y/ z "] {
            for kind in [TransactionLine.Notice.asks, .isDone] {
                let notice = TurnNotice(kind, TransactionPlace(namespace: 7, path: Path(splitting: path)))
                #expect(TurnNotice(notice.text) == notice)
            }
        }
        for text in ["", "turn", "turn asks 1", "turn asks x /", "turn wants 1 /", "other asks 1 /"] {
            #expect(TurnNotice(text) == nil)
        }
    }
}
