import Glibc
import Testing

@testable import pathmirror

/// Checks in a separate process that signals end a command, or make it read its files again.
@Suite struct ProcessSignalsTests {
    @Test func hangupsAreReportedAndTerminationEnds() async {
        await #expect(processExitsWith: .exitCode(42)) {
            ProcessSignals.block()
            raise(SIGHUP)
            var hangups: Int32 = 0
            ProcessSignals().waitForTermination {
                hangups += 1
                raise(hangups < 3 ? SIGHUP : SIGTERM)
            }
            exit(39 + hangups)
        }
    }

    @Test(arguments: [SIGINT, SIGTERM]) func eachEnds(_ signal: Int32) async {
        await #expect(processExitsWith: .exitCode(7)) { [signal = signal as Int32] in
            ProcessSignals.block()
            raise(signal)
            ProcessSignals().waitForTermination { exit(1) }
            exit(7)
        }
    }

    @Test func whetherItIsWanted() async {
        await #expect(processExitsWith: .exitCode(0b101)) {
            ProcessSignals.block()
            let signals = ProcessSignals()
            // No request, then a request, then none: each signal counts once.
            let before = signals.isTerminationWanted(milliseconds: 5)
            raise(SIGINT)
            let then = signals.isTerminationWanted(milliseconds: 0)
            let after = signals.isTerminationWanted(milliseconds: 0)
            exit((before ? 0 : 1) | (then ? 0b100 : 0) | (after ? 0b1000 : 0))
        }
    }

    /// If a command waits for signals, a closed pipe is an error of the write. Otherwise it ends the program, as `| head` expects.
    @Test func closedPipes() async {
        await #expect(processExitsWith: .exitCode(3)) {
            ProcessSignals.block()
            var ends: [Int32] = [0, 0]
            pipe(&ends)
            close(ends[0])
            exit(Console.writeBytes([1], to: ends[1]) ? 4 : errno == EPIPE ? 3 : 5)
        }
        await #expect(processExitsWith: .signal(SIGPIPE)) {
            ProcessSignals.block()
            ProcessSignals().interrupt(by: Interruption())
            var ends: [Int32] = [0, 0]
            pipe(&ends)
            close(ends[0])
            _ = Console.writeBytes([1], to: ends[1])
        }
    }
}

/// Checks that a program without memory prints one line and ends, and that other faults are unchanged.
@Suite struct OutOfMemoryTests {
    @Test(arguments: [SIGABRT, SIGTRAP, SIGILL]) func withoutMemory(_ fault: Int32) async {
        let result = await #expect(processExitsWith: .exitCode(1), observing: [\.standardErrorContent]) {
            [fault = fault as Int32] in
            OutOfMemory.install()
            errno = ENOMEM
            // Threads of the test may have SIGABRT blocked, which does not stop abort().
            if fault == SIGABRT { abort() }
            raise(fault)
        }
        let said = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(said.contains("pathmirror: out of memory, the program ends."))
        #expect(said.contains("--request-memory"))
    }

    @Test func otherFaults() async {
        let result = await #expect(processExitsWith: .signal(SIGABRT), observing: [\.standardErrorContent]) {
            signal(SIGABRT, SIG_DFL)
            OutOfMemory.install()
            errno = 0
            abort()
        }
        let said = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(!said.contains("out of memory"))
    }
}

/// Checks the whole program: main finds the command and returns its exit code.
@Suite struct MainTests {
    @Test(
        arguments: [(["version"], 0), (["nonsense"], 2), ([], 2), (["log", "ls", "--data", "/nowhere"], 1)]
            as [([String], Int32)])
    func exitCodes(_ arguments: [String], _ code: Int32) throws {
        #expect(try pathmirror(arguments).exitCode == code)
    }

    @Test func theEnvironmentOfTheProcess() {
        setenv("PATHMIRROR_TEST_OF_ENVIRONMENT", "a=b", 1)
        defer { unsetenv("PATHMIRROR_TEST_OF_ENVIRONMENT") }
        let environment = Environment.current
        #expect(environment["PATHMIRROR_TEST_OF_ENVIRONMENT"] == "a=b")
        #expect(environment["PATHMIRROR_NOT_THERE"] == nil)
        #expect(environment.all["PATH"] == environment["PATH"])
    }

    @Test func processors() {
        #expect(Processors.count >= 1)
        let parts = Processors.hostAndProcess.split(separator: ":")
        #expect(parts.last == "\(getpid())")
        #expect(parts.count >= 2)
    }
}
