import CEvent
import Glibc

/// Why a server could not be made or started. Nothing that a peer does ever becomes one of these.
public enum HTTPServerError: Error, Equatable, CustomStringConvertible {
    /// The settings contradict themselves; one line for every mistake.
    case invalidSettings([String])
    /// The address cannot be listened at (in use, not of this machine, no permission).
    case cannotListen(address: String, step: String, errorNumber: Int32)
    /// The system refused an event loop, a descriptor or a thread.
    case cannotStartLoop(step: String, errorNumber: Int32)

    public var description: String {
        switch self {
        case .invalidSettings(let mistakes):
            return "The HTTP server's settings are not usable: " + mistakes.joined(separator: "; ")
        case .cannotListen(let address, let step, let number):
            let hint: String
            switch number {
            case EADDRINUSE: hint = " (another process listens there: stop it or choose another port)"
            case EACCES: hint = " (choose a port above 1023 or grant the capability to bind low ports)"
            case EADDRNOTAVAIL: hint = " (this machine has no such address)"
            default: hint = ""
            }
            return "Cannot listen at \(address): \(step): \(Self.text(of: number))\(hint)"
        case .cannotStartLoop(let step, let number):
            let isUsedUp = number == EAGAIN || number == ENOMEM
            let hint = isUsedUp ? " (memory or threads are used up: ulimit -v and -u, the container's limits)" : ""
            return "Cannot start an event loop: \(step): \(Self.text(of: number))\(hint)"
        }
    }

    private static func text(of errorNumber: Int32) -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            guard let base = buffer.baseAddress else { return "error \(errorNumber)" }
            pathmirror_error_text(errorNumber, base, 256)
            return String(cString: base)
        }
    }
}
