import Glibc
import Runtime
import Testing

/// Checks names, signals and ends of threads.
@Suite struct ThreadTests {
    /// Returns the kernel's status of the calling thread: `Name`, `SigBlk`, …
    private static func status() -> [String: String] {
        guard let file = fopen("/proc/thread-self/status", "r") else { return [:] }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = fread(&bytes, 1, bytes.count, file)
        var fields: [String: String] = [:]
        for line in String(decoding: bytes[..<count], as: UTF8.self).split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2 { fields[String(parts[0])] = String(parts[1].drop { $0 == "\t" || $0 == " " }) }
        }
        return fields
    }

    /// Runs `body` on a new thread and returns its result.
    private func on(
        _ name: String, blocksSignals: Bool = false, _ body: @escaping @Sendable () -> [String: String]
    ) -> [String: String] {
        let result = MutexBox<[String: String]>([:])
        let thread = Thread(name: name, blocksSignals: blocksSignals) {
            let found = body()
            result.withLock { $0 = found }
        }
        #expect(thread.isStarted)
        #expect(thread.errorNumber == nil)
        thread.join()
        return result.withLock { $0 }
    }

    @Test(arguments: [("committer-0", "committer-0"), ("a-name-of-more-than-fifteen", "a-name-of-more-"), ("é", "é")])
    func theSystemShowsTheName(name: String, shown: String) {
        #expect(on(name) { Self.status() }["Name"] == shown)
    }

    private func blocked(_ status: [String: String]) -> UInt64? { status["SigBlk"].flatMap { UInt64($0, radix: 16) } }

    private func isBlocked(_ signal: Int32, _ mask: UInt64) -> Bool { mask & 1 << UInt64(signal - 1) != 0 }

    /// A thread with blocked signals is not interrupted by signals of other processes. Signals that it causes itself
    /// still end the process with the location.
    @Test func signalsAreBlockedOnRequest() throws {
        let mask = try #require(blocked(on("no-signals", blocksSignals: true) { Self.status() }))
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGCHLD, SIGWINCH] {
            #expect(isBlocked(signal, mask), "signal \(signal)")
        }
        for signal in [SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV] {
            #expect(!isBlocked(signal, mask), "signal \(signal)")
        }
    }

    /// The starting thread keeps its own signal mask, which the next thread inherits.
    @Test func theStarterKeepsItsSignals() throws {
        let result = MutexBox<[UInt64?]>([])
        let thread = Thread(name: "starter") {
            let before = Self.status()["SigBlk"].flatMap { UInt64($0, radix: 16) }
            Thread(name: "blocked", blocksSignals: true) {}.join()
            let after = Self.status()["SigBlk"].flatMap { UInt64($0, radix: 16) }
            let child = MutexBox<UInt64?>(nil)
            Thread(name: "child") {
                let mask = Self.status()["SigBlk"].flatMap { UInt64($0, radix: 16) }
                child.withLock { $0 = mask }
            }.join()
            let inherited = child.withLock { $0 }
            result.withLock { $0 = [before, after, inherited] }
        }
        thread.join()
        let masks = result.withLock { $0 }
        #expect(masks.count == 3)
        #expect(masks.allSatisfy { $0 != nil && $0 == masks.first })
    }

    /// Several threads may wait for the end, also after it.
    @Test func joiningTwiceReturns() {
        let runs = MutexBox(0)
        let thread = Thread(name: "short") { runs.withLock { $0 += 1 } }
        thread.join()
        thread.join()
        let others = (0..<3).map { _ in Thread(name: "joiner") { thread.join() } }
        for other in others { other.join() }
        #expect(runs.withLock { $0 } == 1)
    }

    /// Objects captured by the body are released when it has run.
    @Test func theBodyIsReleased() {
        final class Held: Sendable {}
        weak var held: Held?
        do {
            let object = Held()
            held = object
            Thread(name: "holder") { withExtendedLifetime(object) {} }.join()
        }
        #expect(held == nil)
    }
}
