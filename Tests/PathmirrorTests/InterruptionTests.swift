import Glibc
import Testing

@testable import pathmirror

/// Checks that the first signal asks repeatedly until the command notices it, and that the second ends the program.
/// `e2e/test_interruptions.py` tests the commands.
@Suite struct InterruptionTests {
    private final class Signals {
        var coming: [Int32?]
        var waits: [Int64?] = []
        init(_ coming: [Int32?]) { self.coming = coming }
        func next(_ milliseconds: Int64?) -> Int32? {
            waits.append(milliseconds)
            return coming.isEmpty ? nil : coming.removeFirst()
        }
    }

    @Test func nothingComes() throws {
        let interruption = Interruption()
        interruption.follow({ _ in nil }, end: { _ in Issue.record("ended") })
        #expect(interruption.signal == nil)
        try interruption.check()
    }

    @Test func theFirstAsks() {
        let interruption = Interruption()
        let signals = Signals([SIGINT, nil, nil])
        interruption.follow(
            { wait in
                // Noticed after two requests.
                if signals.waits.count == 2 { interruption.notice() }
                return signals.next(wait)
            }, end: { _ in Issue.record("ended") })
        #expect(interruption.signal == SIGINT)
        #expect(throws: Interrupted.self) { try interruption.check() }
        #expect(Interruption.exitCode(SIGINT) == 130)
    }

    @Test(arguments: [[SIGINT, SIGINT], [SIGINT, nil, SIGTERM]] as [[Int32?]]) func theSecondEnds(_ coming: [Int32?]) {
        var ended: [Int32] = []
        let signals = Signals(coming)
        Interruption().follow(signals.next) { ended.append($0) }
        #expect(ended == [coming.last!!])
    }

    @Test func unresponsiveProcessesAreEnded() {
        var ended: [Int32] = []
        let signals = Signals([SIGTERM])
        Interruption().follow(signals.next) { ended.append($0) }
        #expect(ended == [SIGTERM])
        // Ten seconds, in short waits.
        #expect(signals.waits.compactMap { $0 }.reduce(0, +) == 10_000)
    }

    @Test func theSecondEndsResponsiveProcesses() {
        let interruption = Interruption()
        var ended: [Int32] = []
        let signals = Signals([SIGINT, SIGINT])
        interruption.follow(
            { wait in
                interruption.notice()
                return signals.next(wait)
            }, end: { ended.append($0) })
        #expect(ended == [SIGINT])
    }

    @Test func whatIsSaid() throws {
        let console = try Descriptors().console()
        let plain = CommandFailure("no")
        #expect(console.ending(plain, "done") is CommandFailure)
        _ = console.interruption.note(SIGINT)
        let end = try #require(console.ending(plain, "Half is done.") as? CommandEnd)
        #expect(end.exitCode == 130)
        #expect(end.message == "interrupted. Half is done.")
        // An error with a message of its own is not replaced.
        #expect((console.ending(end, "Nothing.") as? CommandEnd)?.message == end.message)
    }

    /// A command that is interrupted at its question has changed nothing, whatever it reports when it is interrupted later.
    @Test func atAQuestion() throws {
        let descriptors = try Descriptors()
        defer { withExtendedLifetime(descriptors) {} }
        let console = descriptors.console()
        let arguments = try ParsedArguments(["orders"], FeedRemoveCommand.specification, Environment(values: [:]))
        #expect(throws: CommandFailure.self) { try Confirmation.require("Drop?", "Add --yes.", arguments, console) }
        _ = console.interruption.note(SIGINT)
        let end = #expect(throws: CommandEnd.self) {
            try Confirmation.require("Drop?", "Add --yes.", arguments, console)
        }
        #expect(end?.message == "interrupted. Nothing was changed.")
    }
}
