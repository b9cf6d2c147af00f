import LogStore
import Runtime
import Tree

/// What the commands that look back have in common.
enum ReplayOptions {
    static let namespace = OptionSpecification("ns", "NAME", "the namespace; default \"default\"")
    static let path = OptionSpecification("path", "PATH", "only what is at and below it")
    static let from = OptionSpecification(
        "from", "SEQ|TIME", "the first entry: its seq, or a time or how long ago (1h, 2d) for those after it")
    static let to = OptionSpecification(
        "to", "SEQ|TIME", "the last entry: its seq, a time, or how long ago; default the newest")
    static let dryRun = OptionSpecification("dry-run", nil, "says what would be done, and does nothing")

    static func path(_ arguments: ParsedArguments) throws -> Path? {
        try arguments["path"].map(PathArgument.parse).flatMap { $0.isRoot ? nil : $0 }
    }

    static func moment(_ arguments: ParsedArguments, _ name: String) throws -> LogPosition? {
        guard let text = arguments[name] else { return nil }
        do {
            return try LogPosition(moment: text)
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
