import Glibc

/// Prints one line when the program ends for lack of memory, and ends it at once.
///
/// When an allocation fails, Swift's runtime, the C libraries and C++ abort or trap, each in its own way. Their default handling (a
/// backtrace in a process without memory) takes long or hangs. Other faults are passed to the earlier handlers.
enum OutOfMemory {
    /// The signals that these faults raise.
    private static let signals = [SIGABRT, SIGILL, SIGTRAP, SIGSEGV, SIGBUS]

    static func install() {
        for signal in signals {
            var action = sigaction()
            action.__sigaction_handler.sa_sigaction = { number, _, _ in OutOfMemory.fault(number) }
            // Uses an alternate stack, if there is one: the fault may be a thread's stack that can't grow.
            action.sa_flags = Int32(SA_SIGINFO | SA_ONSTACK | SA_NODEFER)
            Earlier.slot(of: signal).map { _ = sigaction(signal, &action, $0) }
        }
    }

    /// Uses only async-signal-safe functions: no allocation, no lock.
    private static func fault(_ number: Int32) {
        if errno == ENOMEM || !isMemoryLeft {
            _ = write(STDERR_FILENO, message.utf8Start, message.utf8CodeUnitCount)
            _exit(1)
        }
        guard let earlier = Earlier.slot(of: number) else { _exit(1) }
        sigaction(number, earlier, nil)
        // A fault repeats when the handler returns; a raised signal must be raised again.
        if number == SIGABRT { raise(number) }
    }

    /// Whether a large block can still be allocated. Asks the system, because the allocator's state is unreliable now.
    private static var isMemoryLeft: Bool {
        let probe = 32 << 20
        guard let memory = mmap(nil, probe, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            memory != MAP_FAILED
        else { return false }
        munmap(memory, probe)
        return true
    }

    private static var message: StaticString {
        """
        pathmirror: out of memory, the program ends. Give it more (ulimit -v, the container's limit), or have it take less: \
        --request-memory, --tree-memory, --max-connections, fewer namespaces.

        """
    }

    /// The earlier handlers.
    private enum Earlier {
        private static let count = 65
        // Safe: `install` writes it before other threads exist, and handlers only read it.
        nonisolated(unsafe) private static let actions: UnsafeMutablePointer<sigaction> = {
            let actions = UnsafeMutablePointer<sigaction>.allocate(capacity: count)
            actions.initialize(repeating: sigaction(), count: count)
            return actions
        }()

        static func slot(of signal: Int32) -> UnsafeMutablePointer<sigaction>? {
            (0..<Int32(count)).contains(signal) ? actions + Int(signal) : nil
        }
    }
}
