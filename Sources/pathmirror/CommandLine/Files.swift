import Glibc

/// Reading files, with errors that name them.
enum Files {
    /// - Parameter standardInput: what `-` names.
    static func read(
        _ path: String, maxBytes: Int = 64 << 20, standardInput: Int32 = STDIN_FILENO
    ) throws -> [UInt8] {
        let file = try FileReader(path, standardInput: standardInput)
        var bytes: [UInt8] = []
        while let piece = try file.next() {
            bytes.append(contentsOf: piece)
            guard bytes.count <= maxBytes else { throw CommandFailure("\(path) is larger than \(maxBytes) bytes.") }
        }
        return bytes
    }
}
