import Compression
import LogStore
import Runtime
import Tree

/// Reads an export, gzipped or not, on a thread of its own: the next rows are read while earlier ones are sent.
final class ExportReader {
    private let batches = BoundedQueue<RowBatch>(capacity: 2)
    private let thread: Thread

    /// - Parameters:
    ///   - first: the beginning of the file, which was read already.
    ///   - settings: the number of rows in a pack.
    init(_ file: FileReader, after first: [UInt8], at path: Path, _ settings: Importer.Settings) {
        thread = Thread(name: "reader") { [batches] in
            do {
                try Self.read(file, after: first, at: path, settings, batches)
                batches.end()
            } catch {
                batches.end(error)
            }
        }
    }

    /// Returns the next rows; nil at the end.
    ///
    /// - Throws: the error in the file, after the rows before it.
    func next() throws -> RowBatch? { try batches.next() }

    /// Ends the thread, also before the end of the file.
    func close() {
        batches.leave()
        thread.join()
    }

    private static func read(
        _ file: FileReader, after first: [UInt8], at path: Path, _ settings: Importer.Settings,
        _ batches: BoundedQueue<RowBatch>
    ) throws {
        var batch = settings.batch
        // The rows before an error are sent as well: an import in chunks stores them.
        defer { if !batch.isEmpty { _ = batches.put(batch) } }
        let emit = { (path: [UInt8], value: Node) throws in
            batch.append(path, value)
            guard batch.isFull else { return }
            guard batches.put(batch) else { throw Left() }
            batch = settings.batch
        }
        try rows(file, after: first, at: path, isWanted: { !batches.isLeft }, emit)
    }

    /// Reads all rows of an export on the caller's thread.
    ///
    /// - Parameters:
    ///   - first: the beginning of the file, which was read already.
    ///   - isWanted: called repeatedly. Reading ends with an error once the result is false.
    static func rows(
        _ file: FileReader, after first: [UInt8], at path: Path, isWanted: () -> Bool = { true },
        _ emit: JSONRowReader.Emit
    ) throws {
        var rows = JSONRowReader(at: path)
        var decompressor = Gzip.isGzip(first) ? try Gzip.Unpacker() : nil
        var piece: [UInt8]? = first
        while let compressed = piece {
            if decompressor != nil {
                var decompressed: [UInt8] = []
                try decompressor?.append(compressed, to: &decompressed)
                try rows.take(decompressed, emit)
            } else {
                try rows.take(compressed, emit)
            }
            piece = try file.next(isWanted: isWanted)
        }
        guard isWanted() else { throw Left() }
        if let decompressor, !decompressor.isAtEnd { throw CommandFailure("\(file.path) is cut short.") }
        try rows.finish(emit)
    }

    /// Returns an error of the file's content with the file's name; nil for any other error.
    static func failure(_ error: any Error, in file: String) -> CommandFailure? {
        switch error {
        case let error as JSONRowReader.Failure: CommandFailure("\(file): \(error)")
        case GzipError.damaged: CommandFailure("\(file) is not valid gzip data.")
        default: nil
        }
    }

    /// The caller has closed the reader.
    private struct Left: Error {}
}
