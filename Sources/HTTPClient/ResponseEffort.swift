/// The work that one response causes on the client's thread, and its limits. A value.
///
/// All requests share the thread. Without these limits a server could occupy the thread with few bytes, by endless interim
/// responses or by a body in one-byte pieces.
struct ResponseEffort {
    /// The maximum number of responses with a status of 100 to 199 before the final one.
    static let mostInterimResponses = 8
    /// The maximum number of bytes of status lines, headers and trailers, including those of interim responses.
    static let mostHeaderBytes = 65_536
    /// The maximum number of pieces of any size in a body. One more piece is allowed for each `bytesPerPiece` bytes received.
    static let mostSmallPieces = 1_000
    static let bytesPerPiece = 64

    private var interimResponses = 0
    private var headerBytes = 0
    private var pieces = 0

    /// Counts a status line, a header or a trailer.
    ///
    /// - Returns: False if the response exceeds a limit.
    mutating func takeLine(bytes: Int) -> Bool {
        headerBytes += bytes
        return headerBytes <= Self.mostHeaderBytes
    }

    /// Counts a status line.
    ///
    /// - Returns: False if the response exceeds a limit.
    mutating func takeStatus(_ status: Int) -> Bool {
        if (100..<200).contains(status) { interimResponses += 1 }
        return interimResponses <= Self.mostInterimResponses
    }

    /// Counts a piece of the body.
    ///
    /// - Parameter bodyBytes: The number of body bytes received so far, including the piece.
    /// - Returns: False if the body has too many pieces for its length.
    mutating func takePiece(bodyBytes: Int) -> Bool {
        pieces += 1
        return pieces <= Self.mostSmallPieces + bodyBytes / Self.bytesPerPiece
    }
}
