import CHTTPParser

/// Parses one request, which may arrive in any number of pieces. It has no socket and no clock: it receives bytes and
/// returns an outcome. A connection borrows a parser only while it receives a request, so idle connections hold none.
final class RequestParser {
    enum Outcome: Equatable {
        /// All input was consumed; the request is incomplete.
        case needsMore
        /// The request is complete; the input after it was not consumed.
        case complete
        case failed(ParseFailure)
    }

    /// One header line, as offsets into `head`.
    struct Field: Sendable {
        var nameStart: UInt32
        var valueStart: UInt32
        var valueEnd: UInt32
    }

    struct Limits: Sendable {
        var headerBytes: Int
        var headerCount: Int
        var targetBytes: Int
        var bodyBytes: Int

        init(_ settings: HTTPServerSettings) {
            headerBytes = settings.maxHeaderBytes
            headerCount = settings.maxHeaderCount
            targetBytes = settings.maxTargetBytes
            bodyBytes = settings.maxBodyBytes
        }
    }

    /// The target, then name and value of each header line; names in lower case.
    var head: [UInt8] = []
    var fields: [Field] = []
    var body: [UInt8] = []
    var targetLength = 0
    var target: RequestTarget?

    private(set) var facts = HeadFacts()
    var isHeadComplete = false
    /// Whether the parser has stopped after the headers, so that the start of the body is known.
    var isAtHeadEnd = false
    var isComplete = false
    var failure: ParseFailure?
    /// Bytes of target, names and values, including trailers.
    var headBytes = 0
    var isInValue = false
    /// The last byte of the previous input that is not a blank. Detects a folded header line that spans two inputs.
    var lastInk: UInt8 = 0
    var inputStart: UnsafePointer<UInt8>?
    /// The framing of a chunked body that is being received.
    private var framing: ChunkFraming?
    let limits: Limits

    private let parser: UnsafeMutablePointer<http_parser>
    private let callbacks: UnsafePointer<http_parser_settings>

    /// - Parameter callbacks: must outlive the parser.
    init(limits: Limits, callbacks: UnsafePointer<http_parser_settings>) {
        self.limits = limits
        self.callbacks = callbacks
        parser = .allocate(capacity: 1)
        parser.initialize(to: http_parser())
        start()
    }

    deinit {
        parser.deallocate()
    }

    /// Prepares the parser for another request. Frees buffers that grew large.
    func reset() {
        head.removeAll(keepingCapacity: head.capacity <= 4096)
        fields.removeAll(keepingCapacity: fields.capacity <= 64)
        body.removeAll(keepingCapacity: body.capacity <= 4096)
        targetLength = 0
        target = nil
        facts = HeadFacts()
        isHeadComplete = false
        isAtHeadEnd = false
        isComplete = false
        failure = nil
        headBytes = 0
        isInValue = false
        lastInk = 0
        framing = nil
        start()
    }

    private func start() {
        http_parser_init(parser, HTTP_REQUEST)
        parser.pointee.data = Unmanaged.passUnretained(self).toOpaque()
    }

    /// Whether a byte of the request itself has arrived. Empty lines before the request do not count.
    var hasBegun: Bool { facts.hasBegun }

    /// The number of body bytes that are still missing, according to Content-Length or the current chunk.
    var expectedBodyBytes: Int {
        guard isHeadComplete else { return 0 }
        return Int(min(parser.pointee.content_length, UInt64(limits.bodyBytes)))
    }

    /// The number of received body bytes, plus the announced ones.
    var announcedBodyBytes: Int {
        let isFollowed = !isComplete && pathmirror_http_has_length(parser) != 0
        return body.count + (isFollowed ? expectedBodyBytes : 0)
    }

    /// Parses `input`, which must not be empty. After `complete` and `failed` the parser needs a `reset`.
    func feed(_ input: UnsafeRawBufferPointer) -> (consumed: Int, outcome: Outcome) {
        guard let start = input.baseAddress?.assumingMemoryBound(to: CChar.self) else { return (0, .needsMore) }
        if let failure = framing?.take(input) { return (0, .failed(failure)) }
        inputStart = UnsafeRawPointer(start).assumingMemoryBound(to: UInt8.self)
        defer { inputStart = nil }
        var consumed = http_parser_execute(parser, callbacks, start, input.count)
        if isAtHeadEnd, failure == nil {
            isAtHeadEnd = false
            // The parser has stopped at the last byte of the head without checking it.
            guard consumed < input.count, input[consumed] == 0x0A else {
                return (consumed, .failed(.malformed("a carriage return without a line feed after the headers")))
            }
            if pathmirror_http_is_chunked(parser) != 0 {
                var framing = ChunkFraming()
                let body = UnsafeRawBufferPointer(rebasing: input[(consumed + 1)...])
                if let failure = framing.take(body) { return (consumed, .failed(failure)) }
                self.framing = framing
            }
            http_parser_pause(parser, 0)
            consumed += http_parser_execute(parser, callbacks, start + consumed, input.count - consumed)
        }
        if isComplete {
            // The parser also accepts any byte as the line feed after trailers.
            guard framing == nil || consumed > 0 && input[consumed - 1] == 0x0A else {
                return (consumed, .failed(.malformed("a carriage return without a line feed after the body")))
            }
            return (consumed, .complete)
        }
        if let failure { return (consumed, .failed(failure)) }
        let number = pathmirror_http_errno(parser)
        guard number == 0 else { return (consumed, .failed(Self.failure(number))) }
        if !isHeadComplete { noteLastInk(input) }
        return (consumed, .needsMore)
    }

    private func noteLastInk(_ input: UnsafeRawBufferPointer) {
        var index = input.count - 1
        while index >= 0 {
            if input[index] != 0x20, input[index] != 0x09 {
                lastInk = input[index]
                return
            }
            index -= 1
        }
    }

    func noteBegin() {
        facts.hasBegun = true
    }

    /// Checks the head; the parser calls this after the headers. Returns false if the request is refused.
    func judgeHead() -> Bool {
        isHeadComplete = true
        finishField()
        facts.method = pathmirror_http_method(parser)
        facts.major = parser.pointee.http_major
        facts.minor = parser.pointee.http_minor
        facts.isUpgrade = pathmirror_http_is_upgrade(parser) != 0
        facts.keepsAlive = http_should_keep_alive(parser) != 0
        target = head.withUnsafeBufferPointer {
            RequestTarget(UnsafeBufferPointer(rebasing: $0[..<targetLength]))
        }
        do throws(ParseFailure) {
            guard target != nil else { throw .malformed("a control character in the target") }
            try facts.judge(head: head, fields: fields, isChunked: pathmirror_http_is_chunked(parser) != 0)
            if pathmirror_http_has_length(parser) != 0 {
                guard parser.pointee.content_length <= UInt64(limits.bodyBytes) else { throw .bodyTooLarge }
                body.reserveCapacity(min(Int(parser.pointee.content_length), 1 << 20))
            }
        } catch {
            failure = error
            return false
        }
        return true
    }

    /// Removes the blanks after the last value.
    func finishField() {
        guard isInValue, let last = fields.indices.last else { return }
        isInValue = false
        var end = Int(fields[last].valueEnd)
        while end > Int(fields[last].valueStart), head[end - 1] == 0x20 || head[end - 1] == 0x09 { end -= 1 }
        fields[last].valueEnd = UInt32(truncatingIfNeeded: end)
    }

    /// Converts an error of http-parser to the refusal for the peer.
    private static func failure(_ number: Int32) -> ParseFailure {
        let code = http_errno(rawValue: UInt32(bitPattern: number))
        switch code {
        case HPE_HEADER_OVERFLOW: return .headersTooLarge
        case HPE_INVALID_TRANSFER_ENCODING: return .unsupportedTransferEncoding
        default:
            return .malformed(http_errno_description(code).map { String(cString: $0) } ?? "unreadable")
        }
    }
}

/// The reason for refusing a request before a handler receives it. The connection is then closed, because the start of
/// the next request is uncertain.
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

/// The unused parsers of one loop. A loop needs one parser for each incomplete request.
final class ParserPool {
    private var spare: [RequestParser] = []
    private let limits: RequestParser.Limits
    private let callbacks: UnsafeMutablePointer<http_parser_settings>
    private static let spareMax = 64

    init(limits: RequestParser.Limits) {
        self.limits = limits
        callbacks = RequestParser.makeCallbacks()
    }

    /// The pool outlives its parsers: connections return theirs before the loop releases the pool.
    deinit {
        callbacks.deallocate()
    }

    func take() -> RequestParser {
        spare.popLast() ?? RequestParser(limits: limits, callbacks: callbacks)
    }

    func giveBack(_ parser: RequestParser) {
        guard spare.count < Self.spareMax else { return }
        parser.reset()
        spare.append(parser)
    }
}
