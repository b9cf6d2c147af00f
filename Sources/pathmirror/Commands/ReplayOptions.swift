import LogStore
import Runtime
import Tree

/// What the commands that look back have in common.
enum ReplayOptions {
    static let namespace = OptionSpecification("ns", "NAME", "the namespace; default \"default\"")
    static let path = OptionSpecification("path", "PATH", "only what is at and below it")
    static let dryRun = OptionSpecification("dry-run", nil, "says what would be done, and does nothing")

    static func path(_ arguments: ParsedArguments) throws -> Path? {
        try arguments["path"].map(PathArgument.parse).flatMap { $0.isRoot ? nil : $0 }
    }

    static func moment(_ arguments: ParsedArguments, _ name: String) throws -> LogPosition? {
        guard let text = arguments[name] else { return nil }
        do {
            return try LogPosition(text)
        } catch {
            throw UsageError("--\(name): \(error)")
        }
    }

    /// Rebuilds a tree and says how far that is.
    static func tree(
        _ connection: LogConnection, _ namespace: NamespaceRecord, at seq: Int64, within path: Path? = nil,
        _ progress: (PastTree) -> ReplayProgress
    ) throws -> PastTree {
        var tree = try PastTree(connection, namespace, for: seq, within: path)
        let progress = progress(tree)
        tree.pageLimit = progress.pageLimit(atMost: tree.pageLimit)
        let start = tree.seq
        do {
            try tree.advance(to: seq) { progress.advance(to: $0 - start) }
        } catch {
            progress.end()
            throw error
        }
        progress.end()
        return tree
    }
}

/// Reads a file, or standard input for `-`, line by line; empty lines are left out.
struct LineReader {
    private let reader: FileReader
    private var buffer: [UInt8] = []
    private var start = 0
    private var isAtEnd = false
    private(set) var number = 0
    /// Bytes up to the end of the last line, with its line end.
    private(set) var offset = 0

    private static let maxLine = 1 << 30

    init(_ reader: FileReader) { self.reader = reader }

    /// The next line; `isWhole` is false for a last one without an end.
    mutating func next() throws -> (text: [UInt8], isWhole: Bool)? {
        var searched = start
        while true {
            if let end = buffer[searched...].firstIndex(of: 0x0A) {
                let line = Array(buffer[start..<end])
                offset += line.count + 1
                number += 1
                start = end + 1
                searched = start
                if line.isEmpty { continue }
                return (line, true)
            }
            if isAtEnd {
                guard start < buffer.count else { return nil }
                let line = Array(buffer[start...])
                start = buffer.count
                number += 1
                return (line, false)
            }
            buffer.removeFirst(start)
            start = 0
            searched = buffer.count
            guard buffer.count < Self.maxLine else {
                throw CommandFailure("\(reader.path) has a line over \(Self.maxLine) bytes.")
            }
            if let piece = try reader.next() { buffer.append(contentsOf: piece) } else { isAtEnd = true }
        }
    }
}
