/// Why a request is refused before any handler sees it. After each of these the connection is closed, as nothing
/// certain is known about where the next request would begin.
enum ParseFailure: Error, Equatable {
    case malformed(String)
    case targetTooLong
    case headersTooLarge
    case bodyTooLarge
    case unknownExpectation
    case unsupportedTransferEncoding
    case unsupportedVersion

    var status: Int {
        switch self {
        case .malformed: 400
        case .targetTooLong: 414
        case .headersTooLarge: 431
        case .bodyTooLarge: 413
        case .unknownExpectation: 417
        case .unsupportedTransferEncoding: 501
        case .unsupportedVersion: 505
        }
    }

    var text: String {
        switch self {
        case .malformed(let what): "Malformed request: \(what)."
        case .targetTooLong: "The request target is too long."
        case .headersTooLarge: "The request's headers are too large."
        case .bodyTooLarge: "The request's body is too large."
        case .unknownExpectation: "Only the expectation 100-continue is supported."
        case .unsupportedTransferEncoding: "Only the transfer encoding chunked is supported."
        case .unsupportedVersion: "Only HTTP/1.1 and HTTP/1.0 are supported."
        }
    }
}
