import Crypto
import LogStore
import Runtime
import Tree

/// Loads a JSON export into a namespace.
struct ImportCommand: Command {
    static let specification = CommandSpecification(
        "import", "loads a JSON export (gzipped or not): all of it or nothing, unless --chunked",
        positionals: ["FILE|-"],
        options: [
            .init("path", "PATH", "the path to load it at, where it replaces the data; default /"),
            .init("ns", "NAME", "the namespace, created if missing; default \"default\""),
            .init(
                "chunked", nil,
                "in many transactions, for exports too large for one; a run resumes an interrupted one"),
            .init("chunk-rows", "N", "leaves in one transaction of --chunked; default 200000"),
            .json,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try DatabaseLocator.connection(arguments, console, "import")
        defer { connection.close() }
        let path = try PathArgument.parse(arguments["path"] ?? "/")
        var settings = Importer.Settings()
        if arguments.has("chunked") {
            settings.rowsPerChunk = try arguments.integer("chunk-rows", in: 1...100_000_000) ?? 200_000
        }
        let result = try load(
            arguments.positionals[0], into: DatabaseLocator.namespaceName(arguments), connection, console, at: path,
            settings: settings,
            isQuiet: arguments.has("json"))
        if arguments.has("json") {
            console.write("{\"rows\":\(result.rows),\"seq\":\(result.seq),\"resumedRows\":\(result.resumed)}")
        }
    }

    struct Result {
        let rows: Int
        let seq: Int64
        let resumed: Int
    }

    /// Loads the file. The first rows create the namespace if it does not exist.
    @discardableResult
    static func load(
        _ file: String, into namespace: String, _ connection: LogConnection, _ console: Console,
        at path: Path = .root, settings: Importer.Settings = .init(), isQuiet: Bool = false
    ) throws -> Result {
        let reader = try FileReader(file, standardInput: console.input, interruption: console.interruption)
        let progress = Progress(console, "import", totalBytes: reader.byteCount, isQuiet: isQuiet)
        guard let first = try reader.next() else { throw CommandFailure("\(file) is empty.") }
        // The beginning and the size identify the file, so that an import can resume.
        let fingerprint = reader.byteCount.map { Hex.encode(Digest.sha256(first)) + "-\($0)" }
        let importer = try Importer(
            connection, named: namespace, at: path, settings: settings, fingerprint: fingerprint)
        if importer.resumedRows > 0, !isQuiet {
            console.error(
                "import: resumes after \(Counted.text(importer.resumedRows, "leaf", "that was", "that were")) loaded before"
            )
        }
        let rows = ExportReader(reader, after: first, at: path, settings)
        defer { rows.close() }
        do {
            while let batch = try rows.next() {
                try importer.add(batch)
                progress.update(rows: importer.rowsDone, bytes: reader.bytesRead)
                try console.interruption.check()
            }
            guard importer.rowsDone > 0 else {
                throw CommandFailure("\(file) holds no data; nothing was changed.")
            }
            try importer.finish()
        } catch {
            importer.abandon()
            progress.end()
            guard console.interruption.signal == nil else {
                throw console.ending(error, whatIsLeft(importer, isChunked: settings.rowsPerChunk != nil, of: reader))
            }
            throw ExportReader.failure(error, in: file) ?? error
        }
        progress.finish(rows: importer.rowsDone)
        return Result(rows: importer.rowsDone, seq: importer.lastSeq, resumed: importer.resumedRows)
    }
    /// Describes the rows that an interrupted import has stored, and how to resume.
    private static func whatIsLeft(_ importer: Importer, isChunked: Bool, of reader: FileReader) -> String {
        guard isChunked else {
            return
                "Nothing was changed, as all of it is one transaction. With --chunked, an import resumes after an interruption."
        }
        guard reader.byteCount != nil else {
            return
                "\(Counted.text(importer.rowsKept, "leaf", "is", "are")) loaded. An import from a pipe can't be resumed: start it again."
        }
        return "\(Counted.text(importer.rowsKept, "leaf", "is", "are")) loaded; the same command resumes after them."
    }
}

/// Writes a namespace's tree as a JSON export.
struct ExportCommand: Command {
    static let specification = CommandSpecification(
        "export", "writes the tree as JSON, with priorities, at one seq",
        options: [
            .init("path", "PATH", "the path to write; default /"),
            .init("ns", "NAME", "the namespace; default \"default\""),
            OutputFile.option,
        ] + DatabaseLocator.options)

    static func run(_ arguments: ParsedArguments, _ console: Console) throws {
        let connection = try DatabaseLocator.connection(arguments, console, "export")
        defer { connection.close() }
        let namespace = try DatabaseLocator.namespace(arguments, connection)
        let path = try PathArgument.parse(arguments["path"] ?? "/")
        let output = try OutputFile(arguments["output"], standardOutput: console.output)
        // Progress is not mixed with results on the terminal or in a pipe.
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
                error, isFile ? "\(arguments["output"] ?? "") was not written." : "The output is incomplete.")
        }
        progress.finish(rows: exporter.rowCount)
    }
}
