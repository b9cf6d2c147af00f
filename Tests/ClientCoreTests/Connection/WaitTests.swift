import ClientCore
import Testing
import Tree
import Wire

/// Checks how clients wait for entries of a gateway's log, and resume after them.
@Suite struct WaitTests {
    private func spec(_ path: String) -> QuerySpec { QuerySpec(path: Path(splitting: path[...])) }
    private func id(_ number: UInt64) -> RequestID { RequestID(rawValue: number) }

    private func waits(_ requests: [ClientRequest]) -> [Int64] {
        requests.compactMap { if case .wait(let seq, _) = $0.action { seq } else { nil } }
    }

    private func outcomes(_ harness: MachineHarness) -> [WaitOutcome] {
        harness.reports.compactMap { if case .waitAnswered(_, let outcome) = $0 { outcome } else { nil } }
    }

    @Test func aWaitGoesThroughLostConnections() throws {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        harness { $0.wait(id(1), for: 7, path: nil, now: $1) }
        harness.greet(isExtended: true)
        #expect(waits(harness.takeRequests()) == [7])
        harness.receive(.closed(.broken("cut")))
        harness.passTo { $0.opened.count == 2 }
        harness.greet(isExtended: true)
        let again = harness.takeRequests()
        #expect(waits(again) == [7])
        harness.answer(try #require(again.last?.number))
        #expect(outcomes(harness) == [.reached(seq: 7)])
    }

    @Test func aServerThatKnowsNoLogSaysSo() {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        harness.greet()
        harness { $0.wait(id(1), for: 7, path: nil, now: $1) }
        #expect(outcomes(harness) == [.unsupported])
    }

    @Test func whatTheServerGivesUpIsAskedAgainAfterAPause() throws {
        var harness = MachineHarness()
        harness { $0.goOnline(now: $1) }
        harness.greet(isExtended: true)
        harness { $0.wait(id(1), for: 7, path: nil, now: $1) }
        harness.answer(try #require(harness.takeRequests().last?.number), "unavailable")
        #expect(harness.takeRequests().isEmpty)
        harness.passTime(to: harness.now + 1_000)
        let again = harness.takeRequests()
        #expect(waits(again) == [7])
        harness.answer(try #require(again.last?.number), "permission_denied")
        #expect(outcomes(harness) == [.refused(RequestFailure(status: .permissionDenied))])
    }

    /// A listen that can't be resumed is sent with hashes, and waits are sent after its answer.
    @Test func waitsFollowListensThatMayStartAgain() throws {
        var harness = MachineHarness()
        harness.after = "5-x"
        harness { $0.listen(spec("/a"), tag: nil, now: $1) }
        harness { $0.goOnline(now: $1) }
        harness { $0.wait(id(1), for: 7, path: nil, now: $1) }
        harness.greet(isExtended: true)
        var requests = harness.takeRequests()
        guard case .listen(_, "", nil, "5-x")? = requests.last?.action, requests.count == 1 else {
            Issue.record("\(requests)")
            return
        }
        harness.hash = "h"
        harness.answer(requests[0].number, "not_resumed")
        requests = harness.takeRequests()
        guard case .listen(_, "h", nil, nil)? = requests.first?.action else {
            Issue.record("\(requests)")
            return
        }
        #expect(waits(requests) == [7], "behind it, as the server does what it is asked in order")
        harness.answer(requests[0].number, "ok", "{}")
        #expect(harness.reports.contains(.listenCompleted(spec("/a"), tag: nil, lacksIndex: false)))
    }

    @Test func marksAreReported() {
        var harness = MachineHarness()
        harness { $0.listen(spec("/a"), tag: nil, now: $1) }
        harness { $0.goOnline(now: $1) }
        harness.greet(isExtended: true)
        let number = harness.takeRequests().last?.number ?? 0
        harness.receive(#"{"t":"d","d":{"a":"d","b":{"p":"a","d":1,"at":"3-abc"}}}"#)
        harness.receive(#"{"t":"d","d":{"r":\#(number),"b":{"s":"ok","d":{},"at":"3-abc"}}}"#)
        let mark = LogMark(seq: 3, resumption: "3-abc")
        #expect(
            harness.reports.suffix(2) == [
                .changed(.put(Path(splitting: "a"), .int(1)), tag: nil, mark: mark),
                .listenCompleted(spec("/a"), tag: nil, lacksIndex: false, mark: mark),
            ])
    }
}
