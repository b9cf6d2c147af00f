import CEvent
import Glibc
import Runtime

/// Accepts connections from one listening socket. Belongs to its loop's thread.
final class Acceptor {
    private let socket: ListeningSocket
    private unowned let service: LoopService
    private var event: OpaquePointer?
    /// A reserved descriptor, closed in order to accept and end a connection when no other descriptor is left.
    private var spare: Int32 = -1
    private var pause: LoopTimer?

    private static let acceptedAtOnceMax = 128
    private static let pauseMilliseconds: Milliseconds = 200

    init(_ socket: ListeningSocket, service: LoopService) {
        self.socket = socket
        self.service = service
    }

    func start() {
        openSpare()
        event = event_new(
            service.loop.base, socket.descriptor, Int16(EV_READ | EV_PERSIST),
            { _, _, context in
                guard let context else { return }
                Unmanaged<Acceptor>.fromOpaque(context).takeUnretainedValue().accept()
            }, Unmanaged.passUnretained(self).toOpaque())
        if let event { event_add(event, nil) }
    }

    func stop() {
        pause?.cancel()
        pause = nil
        if let event { event_free(event) }
        event = nil
        socket.closeDescriptor()
        if spare >= 0 { close(spare) }
        spare = -1
    }

    /// Accepts connections from the kernel's queue, up to a limit so that other connections get their turn.
    func accept() {
        for _ in 0..<Self.acceptedAtOnceMax {
            var storage = sockaddr_storage()
            let descriptor = pathmirror_accept(socket.descriptor, &storage)
            if descriptor >= 0 {
                service.add(descriptor, PeerAddress(storage), isSecure: socket.isSecure)
                continue
            }
            switch errno {
            case EAGAIN: return
            case EINTR, ECONNABORTED, EPROTO, ENETDOWN, ENETUNREACH, EHOSTUNREACH, EHOSTDOWN, ETIMEDOUT: continue
            case EMFILE, ENFILE:
                shedOne()
                return pauseAccepting()
            default: return pauseAccepting()
            }
        }
    }

    /// Accepts one connection with the spare descriptor and closes it. Without a descriptor the peer would wait
    /// forever.
    private func shedOne() {
        guard spare >= 0 else { return openSpare() }
        close(spare)
        var storage = sockaddr_storage()
        let descriptor = pathmirror_accept(socket.descriptor, &storage)
        service.counters.rejected.bump()
        if descriptor >= 0 { close(descriptor) }
        openSpare()
    }

    private func openSpare() {
        spare = open("/dev/null", O_RDONLY | O_CLOEXEC)
    }

    /// Pauses accepting. The listening socket stays readable, so without a pause the loop would spin.
    private func pauseAccepting() {
        guard let event, pause == nil else { return }
        event_del(event)
        pause = service.loop.schedule(afterMilliseconds: Self.pauseMilliseconds) { [unowned self] in
            pause = nil
            event_add(event, nil)
        }
    }
}

/// A peer's address at the time of accepting its connection. Text is created only on request.
struct PeerAddress: Sendable, Hashable {
    let ip: IPAddress
    let port: UInt16

    init(_ storage: borrowing sockaddr_storage) {
        // A socket of another family, such as a Unix socket, has no address.
        ip = withUnsafeBytes(of: storage) { IPAddress(socketAddress: $0) } ?? IPAddress(high: 0, low: 0)
        switch Int32(storage.ss_family) {
        case AF_INET:
            port = UInt16(bigEndian: withUnsafeBytes(of: storage) { $0.loadUnaligned(as: sockaddr_in.self).sin_port })
        case AF_INET6:
            port = UInt16(bigEndian: withUnsafeBytes(of: storage) { $0.loadUnaligned(as: sockaddr_in6.self).sin6_port })
        default: port = 0
        }
    }

    /// Whether the address is in 127.0.0.0/8, ::1 or one of their mapped forms.
    var isLoopback: Bool { ip.isLoopback }

    /// The address without its port, in its usual text form.
    var host: String { ip.description }
}
