import Glibc
import LogStore

/// A file of entries that is written under a temporary name and renamed once complete. A later run resumes a file that a killed run left.
///
/// If the path is a symbolic link, its target is replaced. Devices and pipes are written to directly.
final class EntryFile {
    private let path: String?
    private let destination: String
    /// The temporary path; nil if the file is written directly.
    private let temporary: String?
    private let descriptor: Int32
    private var buffer: [UInt8] = []
    /// The last entry that an earlier run has written completely.
    private(set) var lastSeq: Int64?
    /// The number of entries that an earlier run has written completely.
    private(set) var keptCount = 0

    /// - Parameters:
    ///   - path: nil for standard output.
    ///   - first: the first entry of the file. A file with another first entry is not resumed.
    ///   - standardOutput: the descriptor of standard output.
    init(_ path: String?, from first: Int64, source: String, standardOutput: Int32) throws {
        self.path = path
        guard let path else {
            (temporary, destination) = (nil, "")
            descriptor = standardOutput
            return
        }
        let target = FileTarget(path)
        destination = target.path
        guard target.isReplaceable else {
            temporary = nil
            descriptor = open(destination, O_WRONLY | O_TRUNC | O_CLOEXEC)
            guard descriptor >= 0 else {
                throw CommandFailure("\(path) can't be written: \(String(cString: strerror(errno))).")
            }
            return
        }
        let temporary = "\(target.path).from\(first).part"
        self.temporary = temporary
        descriptor = open(temporary, O_RDWR | O_CREAT | O_CLOEXEC, target.mode ?? 0o644)
        guard descriptor >= 0 else {
            throw CommandFailure("\(path) can't be written: \(String(cString: strerror(errno))).")
        }
        // From here on `deinit` closes the file after any error.
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            throw CommandFailure("another replay is writing \(temporary).")
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

    /// Returns the length of a file's beginning that consists of whole entries of this source.
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

    /// Flushes the incomplete file for a later run.
    ///
    /// - Returns: its path; nil for standard output.
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
