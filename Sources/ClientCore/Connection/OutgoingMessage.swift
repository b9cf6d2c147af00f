import Wire

/// The texts of a request: one, or a count and the pieces of a long one.
enum OutgoingMessage {
    static func frames(_ request: ClientRequest) -> [[UInt8]] {
        guard let text = request.text, let pieces = Segments.split(text) else { return [] }
        return pieces.count == 1 ? [text] : pieces.map { Array($0) }
    }
}
