import Glibc

/// A text file of the repository, by its path from the repository's root.
public struct RepositoryFile: Sendable {
    private let path: String

    public init(_ path: String) {
        let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3)
        self.path = root.joined(separator: "/") + "/" + path
    }

    /// The text, or an empty string if the file is missing.
    public var text: String {
        guard let file = fopen(path, "r") else { return "" }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while case let count = fread(&piece, 1, piece.count, file), count > 0 { bytes += piece[..<count] }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns the text of a page that is generated from a table in code. If the environment contains
    /// `PATHMIRROR_WRITE_REFERENCE`, the page is written first.
    public func reference(printed text: String) -> String {
        if getenv("PATHMIRROR_WRITE_REFERENCE") != nil, let file = fopen(path, "w") {
            fputs(text, file)
            fclose(file)
        }
        return self.text
    }
}
