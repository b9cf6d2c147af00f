import LogStore
import Tree

/// Writes a namespace's tree as a JSON export.
struct ExportCommand: Command {
    static let specification = CommandSpecification(
        "export", "writes the tree as JSON, priorities included, as of one moment",
        options: [
            .init("path", "PATH", "what to write; default /"),
            .init("ns", "NAME", "the namespace; default \"default\""),
            OutputFile.option,
        ] + Database.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try Database.connection(arguments, console, "export")
        defer { connection.close() }
        let namespace = try Database.namespace(arguments, connection)
        let path = try PathArgument.parse(arguments["path"] ?? "/")
        let output = try OutputFile(arguments["output"], standardOutput: console.output)
        // Results on the terminal, or for another program, are not mixed with what people only want to see.
        let isFile = arguments["output"] ?? "-" != "-"
        let isSeen = console.isTerminal && !console.showsResults
        let estimate = isFile || isSeen ? try connection.estimatedRows(namespace.id, below: path) : nil
        let progress = Progress(
            console, "export", totalBytes: nil, estimatedRows: estimate.map { Int($0) }, isQuiet: !isFile && !isSeen)
        let exporter = Exporter(connection, namespace, at: path) { try output.write($0) }
        do {
            try exporter.run { progress.update(rows: $0, bytes: 0) }
            try output.finish()
        } catch {
            progress.end()
            throw console.ending(
                error, isFile ? "\(arguments["output"] ?? "") was not written." : "The output is not whole.")
        }
        progress.finish(rows: exporter.rowCount)
    }
}
