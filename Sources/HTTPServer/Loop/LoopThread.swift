import CEvent
import Glibc

/// A thread for a loop, with every signal blocked: those are the main thread's business.
enum LoopThread {
    private final class Body: Sendable {
        let name: String
        let run: @Sendable () -> Void

        init(_ name: String, _ run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }
    }

    /// Starts the thread; the caller joins it. `name` may have 15 bytes.
    static func start(name: String, _ run: @escaping @Sendable () -> Void) throws(HTTPServerError) -> pthread_t {
        let body = Unmanaged.passRetained(Body(name, run))
        var thread = pthread_t()
        // The new thread inherits the mask from this one.
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        // What a thread does to itself: blocked, it ends the process without a word of where.
        for own in [SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV] { sigdelset(&all, own) }
        pthread_sigmask(SIG_SETMASK, &all, &before)
        let result = pthread_create(
            &thread, nil,
            { context in
                guard let context else { return nil }
                let body = Unmanaged<Body>.fromOpaque(context).takeRetainedValue()
                pathmirror_name_thread(body.name)
                body.run()
                return nil
            }, body.toOpaque())
        pthread_sigmask(SIG_SETMASK, &before, nil)
        guard result == 0 else {
            body.release()
            throw .cannotStartLoop(step: "pthread_create", errorNumber: result)
        }
        return thread
    }
}
