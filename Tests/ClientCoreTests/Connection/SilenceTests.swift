import ClientCore
import Testing
import Wire

/// Checks that an idle connection is kept alive, and a dead one is detected.
@Suite struct SilenceTests {
    private static let ping = "{\"t\":\"c\",\"d\":{\"t\":\"p\",\"d\":{}}}"

    @Test func aSilentClientSaysThatItLives() {
        var harness = MachineHarness()
        harness.connect()
        let start = harness.now
        harness.passTime(to: start + 44_999)
        #expect(harness.sent.isEmpty)
        harness.passTime(to: start + 45_000)
        #expect(harness.takeTexts() == ["0"])
    }

    @Test func aSilentServerIsAskedAndThenLeft() {
        var harness = MachineHarness()
        harness.connect()
        let start = harness.now
        harness.passTime(to: start + 60_000)
        #expect(harness.takeTexts() == ["0", Self.ping])
        harness.passTime(to: start + 79_999)
        #expect(harness.machine.isConnected)
        harness.passTime(to: start + 80_000)
        #expect(!harness.machine.isConnected)
        #expect(harness.closes.count == 1)
    }

    @Test func aServerThatOwesAnAnswerIsAskedSooner() {
        var harness = MachineHarness()
        harness.connect()
        harness.passTime(to: harness.now + 30_000)
        harness { $0.write(write(1), now: $1) }
        let asked = harness.now
        _ = harness.takeTexts()
        harness.passTime(to: asked + 14_999)
        #expect(harness.sent.isEmpty)
        harness.passTime(to: asked + 15_000)
        #expect(harness.takeTexts() == [Self.ping])
        harness.passTime(to: asked + 35_000)
        #expect(!harness.machine.isConnected)
    }

    @Test func anySignOfLifeCounts() {
        var harness = MachineHarness()
        harness.connect()
        harness { $0.write(write(1), now: $1) }
        for _ in 0..<100 {
            harness.passTime(to: harness.now + 16_000)
            harness.receive(.progress(unfinished: 0))
        }
        for _ in 0..<100 {
            harness.passTime(to: harness.now + 16_000)
            harness.receive(.control(.pong))
        }
        #expect(harness.machine.isConnected)
        #expect(harness.closes.isEmpty)
    }

    @Test func anOfflineMachineWantsNothing() {
        var harness = MachineHarness()
        harness.connect()
        harness { $0.goOffline(now: $1) }
        #expect(harness.takeReports() == [.disconnected(reason: "the app went offline")])
        #expect(harness.machine.deadline == nil)
        #expect(harness.closes.count == 1)
    }
}
