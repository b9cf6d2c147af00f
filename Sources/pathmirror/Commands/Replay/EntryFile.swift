import Glibc
import LogStore

/// A file of entries that is written beside its name and takes it when whole. What a killed run has left is gone on with.
///
/// A link stays, and what it names is replaced; devices and pipes are written to as they are.
final class EntryFile {
    private let path: String?
    private let destination: String
    /// Where it is written until it is whole; nil where it is written in place.
    private let temporary: String?
    private let descriptor: Int32
    private var buffer: [UInt8] = []
    /// The last entry that an earlier run has written whole.
    private(set) var lastSeq: Int64?
    /// How many entries an earlier run has written whole.
    private(set) var keptCount = 0

    /// - Parameters:
    ///   - path: nil for standard output.
    ///   - first: where the file begins; another beginning is another file.
    ///   - standardOutput: what that is.
    init(_ path: String?, from first: Int64, source: String, standardOutput: Int32) throws {
        self.path = path
        guard let path else {
            (temporary, destination) = (nil, "")
            descriptor = standardOutput
            return
        }
        let place = FilePlace(path)
        destination = place.path
        guard place.isReplaceable else {
            temporary = nil
            descriptor = open(destination, O_WRONLY | O_TRUNC | O_CLOEXEC)
            guard descriptor >= 0 else {
                throw CommandFailure("\(path) can't be written: \(String(cString: strerror(errno))).")
            }
            return
        }
        let temporary = "\(place.path).from\(first).part"
        self.temporary = temporary
        descriptor = open(temporary, O_RDWR | O_CREAT | O_CLOEXEC, place.mode ?? 0o644)
        guard descriptor >= 0 else {
            throw CommandFailure("\(path) can't be written: \(String(cString: strerror(errno))).")
        }
        // Whatever is thrown from here on, `deinit` closes the file.
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            throw CommandFailure("\(temporary) is being written by another replay.")
        }
        let kept = try Self.wholeEntries(temporary, source)
        guard ftruncate(descriptor, kept.byteCount) == 0, lseek(descriptor, 0, SEEK_END) >= 0 else {
            throw CommandFailure("\(temporary) can't be written: \(String(cString: strerror(errno))).")
        }
        lastSeq = kept.lastSeq
        keptCount = kept.count
    }

    deinit {
        if path != nil { close(descriptor) }
    }

    /// How much of a file is whole entries of that source.
    private static func wholeEntries(
        _ file: String, _ source: String
    ) throws -> (byteCount: Int, lastSeq: Int64?, count: Int) {
        var lines = LineReader(try FileReader(file))
        var kept: (byteCount: Int, lastSeq: Int64?, count: Int) = (0, nil, 0)
        while let (text, isWhole) = try lines.next() {
            guard isWhole, let line = try? LogLine(text, number: lines.number), line.source == source else {
                return kept
            }
            switch line.content {
            case .entry, .end: kept = (lines.offset, line.seq, kept.count + 1)
            case .bulk, .part: break
            }
        }
        return kept
    }

    func write(_ bytes: [UInt8]) throws {
        buffer.append(contentsOf: bytes)
        if buffer.count >= 256 * 1024 { try flush() }
    }

    private func flush() throws {
        guard Console.writeBytes(buffer, to: descriptor) else {
            throw CommandFailure("\(path ?? "standard output") can't be written: \(String(cString: strerror(errno))).")
        }
        buffer.removeAll(keepingCapacity: true)
    }

    /// Writes out what is there so far, for another run to go on with.
    ///
    /// - Returns: where it is; nil for standard output.
    func keep() throws -> String? {
        try flush()
        return temporary
    }

    func finish() throws {
        try flush()
        guard let path, let temporary else { return }
        guard fsync(descriptor) == 0, rename(temporary, destination) == 0 else {
            throw CommandFailure("\(path) can't be written: \(String(cString: strerror(errno))).")
        }
    }
}
