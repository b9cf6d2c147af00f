import Runtime
import TLS

/// Input from the peer: receives and parses one request after the other.
extension Connection {
    /// Maximum read size while no body is expected: requests are small, and input after a request has to be kept.
    private static let headReadMax = 16 * 1024

    /// Handles a readable socket: it has input, has reached its end, or is broken.
    func readable() {
        if transport.isHandshaking, !isDead { return shakeHands() }
        switch phase {
        case .dead: break
        case .idle, .receiving:
            if output.isEmpty, pending.isEmpty { receive() } else { receiveAhead() }
        case .answering: receiveAhead()
        case .streaming: receiveForStream()
        case .flushing, .lingering: discard()
        }
    }

    /// Whether the next request may be parsed.
    private var mayParse: Bool {
        (phase == .idle || phase == .receiving) && output.isEmpty
    }

    private func read(_ most: Int) -> (StreamOutcome, UnsafeRawBufferPointer) {
        let buffer = UnsafeMutableRawBufferPointer(rebasing: service.input[..<min(most, service.input.count)])
        let outcome = transport.receive(into: buffer)
        if transport.holdsInput { service.readAgain(self) }
        guard case .moved(let count) = outcome else { return (outcome, UnsafeRawBufferPointer(start: nil, count: 0)) }
        service.counters.bytesIn.bump(count)
        return (outcome, UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    }

    private func receive() {
        let (outcome, bytes) = read(max(Self.headReadMax, parser?.expectedBodyBytes ?? 0))
        switch outcome {
        case .moved: drive(bytes)
        case .wouldBlock: break
        case .failed: die()
        case .finished:
            peerFinished = true
            inputEnded()
        }
    }

    /// Handles the end of the peer's input after all of it was parsed.
    private func inputEnded() {
        if phase == .receiving, parser?.hasBegun == true {
            setReadMode(.off)
            refuse(.malformed("the connection's input ended within the request"))
        } else if mayParse {
            die()
        }
    }

    /// Processes `input`: every complete request goes to the handler, the next one after its answer. Input that can't
    /// be parsed yet is kept in `pending`.
    func drive(_ input: UnsafeRawBufferPointer) {
        var rest = input
        corkStart = service.scratch.count
        isDriving = true
        while !rest.isEmpty, mayParse {
            // Other connections get their turn before this connection's next pipelined request.
            if service.loop.isSliceOver {
                later()
                break
            }
            let parser = self.parser ?? service.parsers.take()
            self.parser = parser
            let (consumed, outcome) = parser.feed(rest)
            rest = UnsafeRawBufferPointer(rebasing: rest[consumed...])
            switch outcome {
            case .needsMore: phase = parser.hasBegun ? .receiving : .idle
            case .complete:
                phase = .receiving
                guard reserveBody(parser) else { break }
                hasMoreInput = !rest.isEmpty
                deliver(parser)
            case .failed(let reason):
                phase = .receiving
                refuse(reason)
            }
        }
        isDriving = false
        hasMoreInput = false
        flushCork()
        keep(rest)
        awaitMore()
    }

    private func keep(_ rest: UnsafeRawBufferPointer) {
        guard !rest.isEmpty else { return }
        switch phase {
        case .idle, .receiving, .answering: pending.append(contentsOf: rest)
        case .streaming: exchange?.inputReceived(rest)
        case .flushing, .lingering, .dead: break
        }
    }

    /// Sets the deadline for the next input after a round of parsing.
    private func awaitMore() {
        switch phase {
        case .idle:
            if let parser {
                service.parsers.giveBack(parser)
                self.parser = nil
            }
            stageSinceMilliseconds = nil
        case .receiving:
            guard let parser, reserveBody(parser) else { return }
            if parser.isHeadComplete {
                if !isReceivingBody { bodyBegins(parser) }
            } else if stageSinceMilliseconds == nil {
                stageSinceMilliseconds = service.nowMilliseconds
                arm(afterMilliseconds: service.settings.headerTimeoutMilliseconds)
            }
        case .answering, .streaming, .flushing, .lingering, .dead: break
        }
    }

    private func bodyBegins(_ parser: RequestParser) {
        isReceivingBody = true
        stageSinceMilliseconds = service.nowMilliseconds
        arm(afterMilliseconds: service.settings.bodyTimeoutMilliseconds)
        if parser.facts.expectsContinue, parser.body.isEmpty {
            transmit("HTTP/1.1 100 Continue\r\n\r\n")
        }
    }

    /// Bodies up to this size count only in total; larger ones also count in their peer's share.
    private static let smallBodyBytes = 64 * 1024

    /// Accounts for the growth of the body. Refuses the request if the server's budget is exhausted, or the sender may
    /// not send that much.
    private func reserveBody(_ parser: RequestParser) -> Bool {
        guard mayReceiveBody(parser) else {
            refuse(.bodyTooLarge)
            return false
        }
        let size = parser.body.count
        if let bodyShare {
            if bodyShare.grow(by: size - bodyShare.bytes) { return true }
        } else if size <= Self.smallBodyBytes {
            let grown = size - bodyReserved
            guard grown > 0 else { return true }
            if service.budget.takeBody(grown) {
                bodyReserved += grown
                return true
            }
        } else if let share = service.budget.takeLargeBody(size, sender(parser)) {
            service.budget.releaseBody(bodyReserved)
            bodyReserved = 0
            bodyShare = share
            return true
        }
        service.counters.rejected.bump()
        reply(503, "The server is receiving too much at once. Try again later.", retryAfterSeconds: 1)
        return false
    }

    /// Returns whether the sender may send a body of the received or announced size.
    private func mayReceiveBody(_ parser: RequestParser) -> Bool {
        guard parser.isHeadComplete, let target = parser.target,
            parser.announcedBodyBytes > service.settings.maxPlainBodyBytes
        else { return true }
        if let isLargeBodyAllowed { return isLargeBodyAllowed }
        let isAllowed = service.handler.allowsLargeBody(head(parser, target))
        isLargeBodyAllowed = isAllowed
        return isAllowed
    }

    private func sender(_ parser: RequestParser) -> IPAddress {
        guard parser.isHeadComplete, let target = parser.target else { return peer.ip }
        return service.handler.sender(of: head(parser, target))
    }

    /// Returns the received part of the request.
    private func head(_ parser: RequestParser, _ target: RequestTarget) -> HTTPRequest {
        HTTPRequest(
            parser, method: HTTPMethod(parserCode: parser.facts.method), target: target, peer: peer,
            isSecure: transport.isSecure)
    }

    private func deliver(_ parser: RequestParser) {
        guard let target = parser.target else { return refuse(.malformed("no target")) }
        self.parser = nil
        phase = .answering
        deadlineMilliseconds = .max
        stageSinceMilliseconds = nil
        isReceivingBody = false
        account.namespace = ""
        // After CONNECT the peer uses another protocol.
        let method = HTTPMethod(parserCode: parser.facts.method)
        keepsAlive = parser.facts.keepsAlive && method != .connect
        let exchange = HTTPExchange(
            connection: self, id: service.nextExchange(), isHead: method == .head,
            minorVersion: Int(parser.facts.minor))
        self.exchange = exchange
        service.counters.requests.bump()
        // The request is a temporary: if the handler keeps no part of it, its buffers return to the parser.
        service.handler.requestReceived(
            HTTPRequest(parser, method: method, target: target, peer: peer, isSecure: transport.isSecure), exchange)
        service.parsers.giveBack(parser)
    }

    /// Continues with kept input, or reads again, after a response was sent or the output queue became empty.
    func resume() {
        if phase == .streaming, !pending.isEmpty {
            let kept = pending
            pending = []
            kept.withUnsafeBytes { exchange?.inputReceived($0) }
        }
        guard mayParse else { return }
        if !pending.isEmpty {
            let kept = pending
            pending = []
            kept.withUnsafeBytes { drive($0) }
        }
        guard mayParse, pending.isEmpty else { return }
        if peerFinished { inputEnded() } else { setReadMode(.normal) }
    }

    /// Reads ahead while a request is being answered: keeps a bounded amount of input, and detects its end.
    private func receiveAhead() {
        if peerFinished {
            if transport.isBroken { die() }
            return
        }
        guard pending.isEmpty else { return setReadMode(.off) }
        let (outcome, bytes) = read(Self.headReadMax)
        switch outcome {
        case .moved: pending.append(contentsOf: bytes)
        case .wouldBlock: break
        case .failed: die()
        case .finished:
            if exchange?.endsWithInput == true { return die() }
            peerFinished = true
            setReadMode(isWriteArmed ? .off : .watch)
        }
    }

    private func receiveForStream() {
        let (outcome, bytes) = read(service.input.count)
        switch outcome {
        case .moved: exchange?.inputReceived(bytes)
        case .wouldBlock: break
        // A peer that ends its input while it listens to a stream has disconnected. No known peer half-closes there,
        // and waiting for a failed write would keep dead listeners for minutes.
        case .finished, .failed: die()
        }
    }

    private func discard() {
        let (outcome, _) = read(service.input.count)
        switch outcome {
        case .moved, .wouldBlock: break
        case .failed: die()
        case .finished:
            peerFinished = true
            if phase == .lingering { die() } else { setReadMode(.off) }
        }
    }
}
