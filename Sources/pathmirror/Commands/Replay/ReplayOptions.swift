import LogStore
import Runtime
import Tree

/// Functions shared by the commands that read earlier trees.
enum ReplayOptions {
    static let namespace = OptionSpecification("ns", "NAME", "the namespace; default \"default\"")
    static let path = OptionSpecification("path", "PATH", "only the nodes at and below this path")
    static let from = OptionSpecification(
        "from", "SEQ|TIME", "the first entry: its seq, or a time or an age (1h, 2d) for those after it")
    static let to = OptionSpecification(
        "to", "SEQ|TIME", "the last entry: its seq, a time, or an age; default the newest")
    static let dryRun = OptionSpecification("dry-run", nil, "prints the planned changes, and makes none")

    static func path(_ arguments: ParsedArguments) throws -> Path? {
        try arguments["path"].map(PathArgument.parse).flatMap { $0.isRoot ? nil : $0 }
    }

    static func seqOrTime(_ arguments: ParsedArguments, _ name: String) throws -> SeqOrTime? {
        guard let text = arguments[name] else { return nil }
        do {
            return try SeqOrTime(argument: text)
        } catch {
            throw UsageError("--\(name): \(error)")
        }
    }

    /// Rebuilds a tree and shows the progress.
    ///
    /// - Parameter name: the name of the work, for people.
    static func tree(
        _ connection: LogConnection, _ namespace: NamespaceRecord, at seq: Int64, within path: Path? = nil,
        _ console: Console, _ name: String = "replay", rate: Int? = nil, isQuiet: Bool = false
    ) throws -> PastTree {
        var rebuild = try TreeRebuild(
            connection, namespace, at: seq, within: path, console, name, rate: rate, isQuiet: isQuiet)
        try rebuild.advance(to: seq)
        return rebuild.tree
    }
}

/// A tree that is rebuilt with a progress line.
struct TreeRebuild {
    private(set) var tree: PastTree
    private let progress: ReplayProgress

    /// - Parameter last: the last entry that the tree will include.
    init(
        _ connection: LogConnection, _ namespace: NamespaceRecord, at seq: Int64, last: Int64? = nil,
        within path: Path? = nil, _ console: Console, _ name: String, rate: Int?, isQuiet: Bool
    ) throws {
        let start = try PastTree.start(connection, namespace, for: seq)
        let last = last ?? seq
        let progress = ReplayProgress(
            console, name, total: last - start.seq, bulk: try PastTree.bulk(connection, from: start, to: last),
            rate: rate, isQuiet: isQuiet)
        self.progress = progress
        do {
            tree = try PastTree(connection, from: start, within: path) { try progress.note($0) }
        } catch {
            progress.end()
            throw error
        }
        tree.pageLimit = progress.pageLimit(atMost: tree.pageLimit)
    }

    mutating func advance(to seq: Int64) throws {
        let (progress, start) = (progress, tree.startSeq)
        defer { progress.end() }
        try tree.advance(to: seq) { progress.advance(to: $0 - start) }
    }
}
