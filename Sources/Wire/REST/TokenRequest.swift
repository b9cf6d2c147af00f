/// The body of a request for an access token: a form with an assertion (RFC 7523, section 2.1). Other fields, such as
/// `scope`, are ignored.
public struct TokenRequest: Sendable, Equatable {
    /// Maximum size of the body in bytes.
    public static let maxBytes = 8_192
    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"

    /// The text of the assertion. Not parsed yet.
    public let assertion: String

    public init(_ body: [UInt8]) throws(TokenRefusal) {
        guard body.count <= Self.maxBytes else { throw .malformed }
        var grantType: String?
        var assertion: String?
        for pair in body.split(separator: UInt8(ascii: "&")) {
            guard let equals = pair.firstIndex(of: UInt8(ascii: "=")),
                let name = PercentEncoding.decode(pair[..<equals], plusIsSpace: true),
                let bytes = PercentEncoding.decode(pair[(equals + 1)...], plusIsSpace: true),
                let value = String(validating: bytes, as: UTF8.self)
            else { throw .malformed }
            // No field may be repeated (RFC 6749, section 3.2).
            if name.elementsEqual("grant_type".utf8) {
                guard grantType == nil else { throw .malformed }
                grantType = value
            } else if name.elementsEqual("assertion".utf8) {
                guard assertion == nil else { throw .malformed }
                assertion = value
            }
        }
        guard let grantType else { throw .malformed }
        guard grantType == Self.grantType else { throw .unsupportedGrantType }
        guard let assertion, !assertion.isEmpty else { throw .malformed }
        self.assertion = assertion
    }
}

/// A refused request for an access token: the code of RFC 6749, section 5.2, and the status and text.
public struct TokenRefusal: Error, Sendable, Equatable {
    public let code: String
    public let error: RESTError

    public init(_ code: String, _ error: RESTError) {
        self.code = code
        self.error = error
    }

    static let malformed = TokenRefusal(
        "invalid_request",
        RESTError(400, "The body must be a form of at most 8192 bytes with one grant_type and one assertion"))
    static let unsupportedGrantType = TokenRefusal(
        "unsupported_grant_type",
        RESTError(400, "grant_type must be urn:ietf:params:oauth:grant-type:jwt-bearer"))
}
