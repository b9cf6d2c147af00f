import Glibc

/// Says in one line why the program ends when memory runs out, and ends it at once.
///
/// Where memory can't be had, Swift's runtime, the C libraries and C++ abort or trap, each in its way; what comes then by
/// itself (a search for the functions that were called, in a process that has no memory) takes long or hangs. Other faults
/// are left to whoever was there before.
enum OutOfMemory {
    /// What the faults come as.
    private static let signals = [SIGABRT, SIGILL, SIGTRAP, SIGSEGV, SIGBUS]

    static func install() {
        for signal in signals {
            var action = sigaction()
            action.__sigaction_handler.sa_sigaction = { number, _, _ in OutOfMemory.fault(number) }
            // On its own stack, where there is one: that of the thread may be what can't grow.
            action.sa_flags = Int32(SA_SIGINFO | SA_ONSTACK | SA_NODEFER)
            Earlier.place(of: signal).map { _ = sigaction(signal, &action, $0) }
        }
    }

    /// Only what is allowed in a handler of signals: nothing is allocated, no lock is taken.
    private static func fault(_ number: Int32) {
        if errno == ENOMEM || !isMemoryLeft {
            _ = write(STDERR_FILENO, message.utf8Start, message.utf8CodeUnitCount)
            _exit(1)
        }
        guard let earlier = Earlier.place(of: number) else { _exit(1) }
        sigaction(number, earlier, nil)
        // A fault comes again by itself where the program goes on; what was raised has to be raised again.
        if number == SIGABRT { raise(number) }
    }

    /// Whether a large piece of memory can still be had: the system's own, as the allocator's state can't be trusted now.
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

    /// What was done about each signal before.
    private enum Earlier {
        private static let count = 65
        // Safe: written by `install`, before there are other threads, and only read by handlers.
        nonisolated(unsafe) private static let actions: UnsafeMutablePointer<sigaction> = {
            let actions = UnsafeMutablePointer<sigaction>.allocate(capacity: count)
            actions.initialize(repeating: sigaction(), count: count)
            return actions
        }()

        static func place(of signal: Int32) -> UnsafeMutablePointer<sigaction>? {
            (0..<Int32(count)).contains(signal) ? actions + Int(signal) : nil
        }
    }
}
