import Glibc
import Runtime
import TLS

/// A connected socket, and what of it is waited for. Confined to its loop's thread.
final class Link {
    let stream: SocketStream
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
        stream = SocketStream(descriptor: descriptor, tls: tls)
        self.loop = loop
        self.id = id
    }

    func wait(read: Bool, write: Bool) {
        guard read != reads || write != writes else { return }
        reads = read
        writes = write
        loop.poller.change(stream.descriptor, id: id, read: read, write: write)
    }

    func close() {
        loop.unwatch(stream.descriptor, id: id)
        stream.close()
    }
}
