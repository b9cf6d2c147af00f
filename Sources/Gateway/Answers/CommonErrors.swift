import Wire

extension RESTError {
    static let tooManyRequests = RESTError(429, "Too many requests")
}

/// Texts that clients of both protocols are sent.
enum AnswerText {
    /// A write of more bytes, or rows, than one request may have.
    static let tooBig = "Data to write exceeds the maximum size that can be modified with a single request."
}
