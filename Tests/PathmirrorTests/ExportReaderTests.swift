import Glibc
import LogStore
import Testing
import Tree

@testable import pathmirror

/// Checks the reader of exports, which reads while earlier rows are stored.
@Suite struct ExportReaderTests {
    /// A pipe whose other end is open.
    private final class Pipe {
        let input: Int32
        let output: Int32

        init() throws {
            var ends: [Int32] = [0, 0]
            try #require(pipe(&ends) == 0)
            (input, output) = (ends[0], ends[1])
        }

        deinit {
            close(input)
            close(output)
        }

        func send(_ text: String) { _ = Array(text.utf8).withUnsafeBytes { write(output, $0.baseAddress, $0.count) } }
    }

    private static func settings(_ bytes: Int, rows: Int? = nil) -> Importer.Settings {
        var settings = Importer.Settings()
        settings.bufferBytes = bytes
        settings.rowsPerChunk = rows
        return settings
    }

    @Test(arguments: [(10_000, nil, 1), (1, nil, 20), (10_000, 7, 3)] as [(Int, Int?, Int)])
    func batchesAreAsLargeAsRequested(_ bytes: Int, _ rows: Int?, _ batches: Int) throws {
        let text = "{" + (0..<20).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}"
        let file = try ScratchFile(Array(text.utf8))
        let reader = try FileReader("-", standardInput: file.descriptor)
        let first = try #require(try reader.next())
        let export = ExportReader(reader, after: first, at: .root, Self.settings(bytes, rows: rows))
        defer { export.close() }
        var sizes: [Int] = []
        while let batch = try export.next() { sizes.append(batch.count) }
        #expect(sizes.reduce(0, +) == 20)
        #expect(sizes.count == batches)
    }

    /// The error of a text follows the rows before it.
    @Test func rowsBeforeAFault() throws {
        let file = try ScratchFile(Array(#"{"a":1,"b":2,"c":oops}"#.utf8))
        let reader = try FileReader("-", standardInput: file.descriptor)
        let first = try #require(try reader.next())
        let export = ExportReader(reader, after: first, at: .root, Self.settings(10_000))
        defer { export.close() }
        #expect(try export.next()?.count == 2)
        #expect(throws: JSONRowReader.Failure.self) { try export.next() }
    }

    /// After a failure, the reader does not wait for a silent producer.
    @Test(arguments: [0, 1]) func failuresDoNotWait(taken: Int) throws {
        let source = try Pipe()
        source.send(#"{"a":1,"b":2,"#)
        let reader = try FileReader("-", standardInput: source.input, interruption: Interruption())
        let first = try #require(try reader.next())
        let export = ExportReader(reader, after: first, at: .root, Self.settings(1))
        for _ in 0..<taken { #expect(try export.next()?.count == 1) }
        export.close()
        withExtendedLifetime(source) {}
    }
}
