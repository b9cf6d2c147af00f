import Tree
import Wire

/// The machine's state of one connection, from the attempt to open it to its end.
struct OpenConnection: Sendable {
    let number: ConnectionNumber
    var assembler: SegmentAssembler
    /// Unanswered requests, by the number in the server's answer.
    var requests: [Int64: Request] = [:]
    var nextNumber: Int64 = 1
    /// The time since which the server has owed an answer: that of its last answer, or of the first request after all
    /// were answered.
    var owedSince: Int64
    var lastReceived: Int64
    var lastSent: Int64
    /// The time at which the server was pinged; nil if it has sent data since.
    var pingedAt: Int64?
    /// Whether the owner does not take received data.
    var isReadingPaused = false
    /// The time of the server's greeting.
    var greetedAt: Int64?
    /// The server's clock at that time, in milliseconds since 1970.
    var serverTime: Int64?
    /// Bytes and number of the queue's requests in `requests`.
    var bytesInFlight = 0
    var requestsInFlight = 0
    /// The number of further irregularities of this server that are reported.
    var notesLeft = 20
    /// Whether the server speaks the gateway's extension.
    var isExtended = false
    /// Unanswered listens that may have been asked to resume.
    var resuming: Set<UInt64> = []
    /// Ended listens without a tag whose end the server has not confirmed, by the request's number: until then, data
    /// for their paths may belong to them.
    var ending: [Int64: Path] = [:]
    /// The number of unanswered waits.
    var waitsInFlight = 0
    /// The time at which waits that the server has abandoned are sent again; nil if there are none.
    var waitsAgainAt: Int64?

    /// The purpose of a request.
    enum Request: Sendable {
        case listen(UInt64)
        case queued(UInt64, byteCount: Int)
        case login(UInt64)
        case appCheck
        case wait(RequestID)
        /// The answer has no effect.
        case unimportant
    }

    init(number: ConnectionNumber, maxMessageBytes: Int, now: Int64) {
        self.number = number
        assembler = SegmentAssembler(maxBytes: maxMessageBytes)
        owedSince = now
        lastReceived = now
        lastSent = now
    }

    /// Allocates the number of one more request.
    mutating func ask(_ request: Request, now: Int64) -> Int64 {
        defer { nextNumber += 1 }
        if requests.isEmpty { owedSince = now }
        requests[nextNumber] = request
        lastSent = now
        return nextNumber
    }

    /// Whether one more queued request may be sent ahead of the server's answers.
    func hasRoom(_ settings: ConnectionSettings) -> Bool {
        requestsInFlight < settings.maxRequestsInFlight && bytesInFlight < settings.maxBytesInFlight
    }

    /// Returns the time at which the server's silence requires a ping, or the end of the connection.
    func silenceEnds(_ settings: ConnectionSettings) -> Int64 {
        if isReadingPaused { return .max }
        if let pingedAt { return pingedAt + settings.pongTimeout }
        if requests.isEmpty { return lastReceived + settings.pingWhenIdle }
        return min(
            max(lastReceived, owedSince) + settings.pingWhenOwed, lastReceived + settings.pingWhenIdle)
    }
}
