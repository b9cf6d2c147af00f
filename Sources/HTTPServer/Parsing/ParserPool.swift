import CHTTPParser

/// The parsers of one loop that nobody is using. A loop needs as many as it has requests half received.
final class ParserPool {
    private var spare: [RequestParser] = []
    private let limits: RequestParser.Limits
    private let callbacks: UnsafeMutablePointer<http_parser_settings>
    private static let spareMax = 64

    init(limits: RequestParser.Limits) {
        self.limits = limits
        callbacks = RequestParser.makeCallbacks()
    }

    /// The pool outlives its parsers: connections give theirs back before the loop lets go of the pool.
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
