import Follower
import LogStore
import Runtime
import Tree

/// One of the two trees that `diff` compares.
enum DiffSide {
    case namespace(LogConnection, NamespaceRecord, seq: Int64)
    /// A JSON export, gzipped or not.
    case export(file: String)
    case upstream(UpstreamAddress)

    static let credentials = OptionSpecification(
        "credentials", "FILE", "for a URL: as in 'follow add'; default none")

    init(_ text: String, _ arguments: ParsedArguments, _ console: Console) throws {
        if text.contains("://") {
            self = .upstream(try UpstreamAddress(text))
            return
        }
        // Names of namespaces have no such characters.
        if text.contains("/") || (text.contains(".") && !text.contains("@")) {
            self = .export(file: text)
            return
        }
        var name = text
        var moment = SeqOrTime.head
        if let at = text.lastIndex(of: "@") {
            name = String(text[..<at])
            do {
                moment = try SeqOrTime(argument: String(text[text.index(after: at)...]))
            } catch {
                throw UsageError("\(text): \(error)")
            }
        }
        let connection = try DatabaseLocator.connection(arguments, console, "diff", of: .of(name))
        guard let namespace = try connection.namespace(named: name) else {
            throw LogStoreError.unknownNamespace(name)
        }
        self = .namespace(connection, namespace, seq: try moment.seq(connection, namespace))
    }

    func close() {
        if case .namespace(let connection, _, _) = self { connection.close() }
    }

    /// Loads both trees, of which only the nodes at and below a path.
    static func trees(
        _ old: DiffSide, _ new: DiffSide, _ path: Path?, _ rate: Int?, _ arguments: ParsedArguments, _ console: Console
    ) throws -> (Node, Node) {
        if case .namespace(let connection, let namespace, let seq) = old,
            case .namespace(_, let other, let otherSeq) = new, namespace.streamKey == other.streamKey
        {
            // One pass through the log reaches both.
            var rebuild = try TreeRebuild(
                connection, namespace, at: min(seq, otherSeq), last: max(seq, otherSeq), within: path, console,
                "replay", rate: rate, isQuiet: false)
            try rebuild.advance(to: min(seq, otherSeq))
            let first = rebuild.tree.root
            try rebuild.advance(to: max(seq, otherSeq))
            return seq <= otherSeq ? (first, rebuild.tree.root) : (rebuild.tree.root, first)
        }
        // An upstream sends what differs from the other tree.
        if case .upstream = old {
            let other = try new.tree(path, from: .null, rate, arguments, console)
            return (try old.tree(path, from: other, rate, arguments, console), other)
        }
        let other = try old.tree(path, from: .null, rate, arguments, console)
        return (other, try new.tree(path, from: other, rate, arguments, console))
    }

    private func tree(
        _ path: Path?, from known: Node, _ rate: Int?, _ arguments: ParsedArguments, _ console: Console
    ) throws -> Node {
        switch self {
        case .namespace(let connection, let namespace, let seq):
            var rebuild = try TreeRebuild(
                connection, namespace, at: seq, within: path, console, "replay", rate: rate, isQuiet: false)
            try rebuild.advance(to: seq)
            return rebuild.tree.root
        case .export(let file): return try Self.tree(of: file, at: path ?? .root, console)
        case .upstream(let address):
            return try FollowOptions.withTools { tools in
                try UpstreamCheck.tree(
                    of: address, UpstreamCredentials(option: arguments[Self.credentials.name]), tools,
                    at: path ?? .root, from: known, check: { try console.interruption.check() })
            }
        }
    }

    private static func tree(of file: String, at path: Path, _ console: Console) throws -> Node {
        let reader = try FileReader(file, standardInput: console.input, interruption: console.interruption)
        guard let first = try reader.next() else { throw CommandFailure("\(file) is empty.") }
        var builder = TreeBuilder()
        do {
            let add = { (path: [UInt8], value: Node) in path.withUnsafeBytes { builder.add($0, value) } }
            try ExportReader.rows(
                reader, after: first, at: path, isWanted: { console.interruption.signal == nil }, add)
        } catch {
            try console.interruption.check()
            throw ExportReader.failure(error, in: file) ?? error
        }
        return builder.finish()
    }
}
