import Glibc
import TLS

/// A connected socket, plain or over TLS, and what of it is waited for. Confined to its loop's thread.
final class Link {
    let descriptor: Int32
    let tls: TLSSession?
    private let loop: ClientLoop
    private let id: UInt64
    private var reads = true
    private var writes = false

    /// Takes ownership of the socket; nil, and the socket closed, where the system refuses.
    init?(_ descriptor: Int32, _ tls: TLSSession?, _ loop: ClientLoop, for runner: ConnectionRunner) {
        guard let id = loop.watch(descriptor, for: runner, read: true, write: false) else {
            Glibc.close(descriptor)
            return nil
        }
        self.descriptor = descriptor
        self.tls = tls
        self.loop = loop
        self.id = id
    }

    func wait(read: Bool, write: Bool) {
        guard read != reads || write != writes else { return }
        reads = read
        writes = write
        loop.poller.change(descriptor, id: id, read: read, write: write)
    }

    /// Whether there may be input although the socket has none.
    var holdsInput: Bool { tls?.holdsInput ?? false }

    func receive(into buffer: UnsafeMutableRawBufferPointer) -> StreamOutcome {
        if let tls { return tls.receive(into: buffer) }
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if count > 0 { return .moved(count) }
            if count == 0 { return .finished }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            case let number: return .failed(number)
            }
        }
    }

    func send(_ bytes: UnsafeRawBufferPointer) -> StreamOutcome {
        if let tls { return tls.send(bytes) }
        while true {
            let count = Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
            if count >= 0 { return .moved(count) }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            case let number: return .failed(number)
            }
        }
    }

    func close() {
        loop.unwatch(descriptor, id: id)
        _ = tls?.finishSending()
        Glibc.close(descriptor)
    }
}
