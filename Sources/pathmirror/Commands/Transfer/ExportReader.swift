import Compression
import LogStore
import Runtime
import Tree

/// Reads an export, gzipped or not, on a thread of its own: the rows of the next packs are read while those before are sent.
final class ExportReader {
    private let packs = Conveyor<RowPack>(capacity: 2)
    private let thread: Thread

    /// - Parameters:
    ///   - first: the file's beginning, which was read from it already.
    ///   - settings: say how many rows belong together.
    init(_ file: FileReader, after first: [UInt8], at path: Path, _ settings: Importer.Settings) {
        thread = Thread(name: "reader") { [packs] in
            do {
                try Self.read(file, after: first, at: path, settings, packs)
                packs.end()
            } catch {
                packs.end(error)
            }
        }
    }

    /// The next rows; nil at the end.
    ///
    /// - Throws: what is wrong with the file, behind the rows before.
    func next() throws -> RowPack? { try packs.next() }

    /// Ends the thread, also where not everything was read.
    func close() {
        packs.leave()
        thread.join()
    }

    private static func read(
        _ file: FileReader, after first: [UInt8], at path: Path, _ settings: Importer.Settings,
        _ packs: Conveyor<RowPack>
    ) throws {
        var pack = settings.pack
        // What comes before a fault is sent as well: an import in chunks keeps it.
        defer { if !pack.isEmpty { _ = packs.put(pack) } }
        var rows = JSONRowReader(at: path)
        let emit = { (path: [UInt8], value: Node) throws in
            pack.append(path, value)
            guard pack.isFull else { return }
            guard packs.put(pack) else { throw Left() }
            pack = settings.pack
        }
        var unpacker = Gzip.isGzip(first) ? try Gzip.Unpacker() : nil
        var piece: [UInt8]? = first
        while let packed = piece {
            if unpacker != nil {
                var unpacked: [UInt8] = []
                try unpacker?.append(packed, to: &unpacked)
                try rows.take(unpacked, emit)
            } else {
                try rows.take(packed, emit)
            }
            piece = try file.next { !packs.isLeft }
        }
        if packs.isLeft { throw Left() }
        if let unpacker, !unpacker.isAtEnd { throw CommandFailure("\(file.path) is cut short.") }
        try rows.finish(emit)
    }

    /// Nobody wants the rest.
    private struct Left: Error {}
}
