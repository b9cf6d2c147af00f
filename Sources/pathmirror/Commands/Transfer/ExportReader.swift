import Compression
import LogStore
import Runtime
import Tree

/// Reads an export, gzipped or not, on a thread of its own: the next rows are read while earlier ones are sent.
final class ExportReader {
    private let packs = BoundedQueue<RowPack>(capacity: 2)
    private let thread: Thread

    /// - Parameters:
    ///   - first: the beginning of the file, which was read already.
    ///   - settings: the number of rows in a pack.
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

    /// Returns the next rows; nil at the end.
    ///
    /// - Throws: the error in the file, after the rows before it.
    func next() throws -> RowPack? { try packs.next() }

    /// Ends the thread, also before the end of the file.
    func close() {
        packs.leave()
        thread.join()
    }

    private static func read(
        _ file: FileReader, after first: [UInt8], at path: Path, _ settings: Importer.Settings,
        _ packs: BoundedQueue<RowPack>
    ) throws {
        var pack = settings.pack
        // The rows before an error are sent as well: an import in chunks stores them.
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

    /// The caller has closed the reader.
    private struct Left: Error {}
}
