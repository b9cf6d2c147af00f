/// What a server makes the client's thread do for one response, and the bounds on it. A value.
///
/// All requests share the thread. Without these bounds a server could occupy the thread with few bytes: by interim responses without end, or by
/// a body in pieces of one byte.
struct ResponseEffort {
    /// Responses with a status of 100 to 199 that may come before the final one.
    static let mostInterimResponses = 8
    /// Bytes of status lines, headers and trailers, of interim responses too.
    static let mostHeaderBytes = 65_536
    /// Pieces of any size that a body may have, besides one for each `bytesPerPiece` bytes received.
    static let mostSmallPieces = 1_000
    static let bytesPerPiece = 64

    private var interimResponses = 0
    private var headerBytes = 0
    private var pieces = 0

    /// Counts a status line, a header or a trailer.
    ///
    /// - Returns: False if the response is over a bound.
    mutating func takeLine(bytes: Int) -> Bool {
        headerBytes += bytes
        return headerBytes <= Self.mostHeaderBytes
    }

    /// Counts a status line.
    ///
    /// - Returns: False if the response is over a bound.
    mutating func takeStatus(_ status: Int) -> Bool {
        if (100..<200).contains(status) { interimResponses += 1 }
        return interimResponses <= Self.mostInterimResponses
    }

    /// Counts a piece of the body.
    ///
    /// - Parameter bodyBytes: The bytes of the body received up to now, those of the piece included.
    /// - Returns: False if the body has too many pieces for its length.
    mutating func takePiece(bodyBytes: Int) -> Bool {
        pieces += 1
        return pieces <= Self.mostSmallPieces + bodyBytes / Self.bytesPerPiece
    }
}
