enum TokenFiles {
    /// The first line of a file.
    static func secret(_ file: String) throws -> [UInt8] {
        let secret = Array(try Files.read(file, maxBytes: 64 * 1024).prefix { $0 != 0x0A && $0 != 0x0D })
        guard !secret.isEmpty else { throw CommandFailure("There is no secret in the first line of \(file).") }
        return secret
    }
}
