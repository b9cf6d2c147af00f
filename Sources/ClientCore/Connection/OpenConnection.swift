import Tree
import Wire

/// What a machine keeps of one connection, from the try to open it to its end.
struct OpenConnection: Sendable {
    let number: ConnectionNumber
    var assembler: SegmentAssembler
    /// Requests that the server has not answered, by the number that it answers with.
    var requests: [Int64: Request] = [:]
    var nextNumber: Int64 = 1
    /// When the first of `requests` was asked, of those since there was none.
    var owedSince: Int64
    var lastReceived: Int64
    var lastSent: Int64
    /// When the server was asked for a sign of life; nil where it has given one since.
    var pingedAt: Int64?
    /// When the server greeted.
    var greetedAt: Int64?
    /// The server's clock at that moment, in milliseconds since 1970.
    var serverTime: Int64?
    /// Of the queue's requests that are in `requests`.
    var bytesInFlight = 0
    var requestsInFlight = 0
    /// How many more oddities of this server are told.
    var notesLeft = 20
    /// Whether the server speaks the gateway's extension.
    var isExtended = false
    /// Listens that may have been asked to go on where they were, and are not answered.
    var resuming: Set<UInt64> = []
    /// Ended listens without a tag whose end the server has not confirmed, by the request's number: what it sends of their
    /// places until then may be theirs.
    var ending: [Int64: Path] = [:]
    /// Waits that are not answered.
    var waitsInFlight = 0
    /// When waits are asked again that the server has given up; nil for none.
    var waitsAgainAt: Int64?

    /// What a request was sent for.
    enum Request: Sendable {
        case listen(UInt64)
        case queued(UInt64, byteCount: Int)
        case login(UInt64)
        case appCheck
        case wait(RequestID)
        /// Its answer changes nothing.
        case unimportant
    }

    init(number: ConnectionNumber, maxMessageBytes: Int, now: Int64) {
        self.number = number
        assembler = SegmentAssembler(maxBytes: maxMessageBytes)
        owedSince = now
        lastReceived = now
        lastSent = now
    }

    /// Takes the number for one more request.
    mutating func ask(_ request: Request, now: Int64) -> Int64 {
        defer { nextNumber += 1 }
        if requests.isEmpty { owedSince = now }
        requests[nextNumber] = request
        lastSent = now
        return nextNumber
    }

    /// Whether one more request of the queue may go ahead of the server's answers.
    func hasRoom(_ settings: ConnectionSettings) -> Bool {
        requestsInFlight < settings.maxRequestsInFlight && bytesInFlight < settings.maxBytesInFlight
    }

    /// When the server's silence asks for something: for a ping, or for the end.
    func silenceEnds(_ settings: ConnectionSettings) -> Int64 {
        if let pingedAt { return pingedAt + settings.pongTimeout }
        if requests.isEmpty { return lastReceived + settings.pingWhenIdle }
        return min(
            max(lastReceived, owedSince) + settings.pingWhenOwed, lastReceived + settings.pingWhenIdle)
    }
}
