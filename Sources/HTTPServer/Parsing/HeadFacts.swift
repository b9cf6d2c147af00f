/// The properties of a request's head that determine the exchange, and the checks that http-parser leaves to its
/// caller.
struct HeadFacts {
    var hasBegun = false
    var method: Int32 = 0
    var major: UInt16 = 1
    var minor: UInt16 = 1
    var isUpgrade = false
    var keepsAlive = false
    /// Whether the peer waits for `100 Continue` before it sends the body.
    var expectsContinue = false
    private var hasHost = false
    private var hasTransferEncoding = false

    /// Checks the headers that determine the request's end and whether it is accepted.
    mutating func judge(
        head: [UInt8], fields: [RequestParser.Field], isChunked: Bool
    ) throws(ParseFailure) {
        guard major == 1 else { throw .unsupportedVersion }
        for field in fields {
            let name = head[Int(field.nameStart)..<Int(field.valueStart)]
            let value = head[Int(field.valueStart)..<Int(field.valueEnd)]
            switch name.count {
            case 4 where name.equals("host"):
                guard !hasHost else { throw .malformed("more than one Host header") }
                hasHost = true
            case 6 where name.equals("expect"):
                guard value.equalsIgnoringCase("100-continue") else { throw .unknownExpectation }
                // HTTP/1.0 has no interim responses.
                expectsContinue = minor >= 1
            case 14 where name.equals("content-length"):
                guard !value.isEmpty else { throw .malformed("an empty Content-Length") }
            case 17 where name.equals("transfer-encoding"):
                guard minor >= 1 else { throw .malformed("Transfer-Encoding in HTTP/1.0") }
                guard !hasTransferEncoding else { throw .malformed("more than one Transfer-Encoding header") }
                hasTransferEncoding = true
                // Any other value, including lists and repetitions, makes proxies and servers disagree about the
                // request's end.
                guard value.equalsIgnoringCase("chunked"), isChunked else { throw .unsupportedTransferEncoding }
            default: break
            }
        }
        guard hasHost || minor == 0 else { throw .malformed("no Host header") }
    }
}

extension ArraySlice<UInt8> {
    /// Compares with ASCII text.
    @inline(__always)
    func equals(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        var other = text.utf8Start
        for byte in self {
            if byte != other.pointee { return false }
            other += 1
        }
        return true
    }

    /// Compares with ASCII text in lower case.
    func equalsIgnoringCase(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        var other = text.utf8Start
        for byte in self {
            let lower = byte &- 0x41 < 26 ? byte | 0x20 : byte
            if lower != other.pointee { return false }
            other += 1
        }
        return true
    }
}
