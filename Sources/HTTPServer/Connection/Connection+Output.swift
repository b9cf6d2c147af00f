import CEvent
import Glibc
import TLS

/// Output to the peer: sent at once if the queue is empty, else queued and sent by the write event.
extension Connection {
    private static let vectorMax = 32
    /// Bodies up to this size are copied after their head into the scratch buffer; larger ones are sent without a copy.
    private static let copiedBodyMax = 16 * 1024
    /// Maximum size in bytes of joined pipelined responses.
    private static let corkMax = 64 * 1024

    // MARK: Responses

    /// Sends a complete response to the current request and continues with the next request.
    ///
    /// - Returns: false if the response is not sent.
    @discardableResult
    func answer(
        status: Int, common: HTTPHeaders, headers: HTTPHeaders, body: [UInt8], isHead: Bool, minorVersion: Int
    ) -> Bool {
        guard phase == .answering else { return false }
        let sendsBody = !isHead && status != 204 && status != 304
        var large: SharedBytes?
        if sendsBody, body.count > Self.copiedBodyMax {
            let bytes = SharedBytes(body)
            guard bytes.enter(service.budget.output, account) else {
                refuseOutput(common, minorVersion)
                return false
            }
            large = bytes
        }
        let scratch = service.scratch
        if !isDriving { corkStart = scratch.count }
        let closes = !keepsAlive || service.isDraining
        writeHead(status: status, common: common, headers: headers)
        if closes {
            scratch.append("Connection: close\r\n")
        } else if minorVersion == 0 {
            scratch.append("Connection: keep-alive\r\n")
        }
        if status != 204, status != 304 {
            scratch.append("Content-Length: ")
            scratch.append(decimal: body.count)
            scratch.append("\r\n\r\n")
        } else {
            scratch.append("\r\n")
        }
        if let large {
            flushCork(followedBy: large)
        } else {
            if sendsBody { scratch.append(body) }
            if !(isDriving && hasMoreInput && !closes && scratch.count - corkStart < Self.corkMax) { flushCork() }
        }
        finishExchange(closes: closes)
        return true
    }

    /// Answers that the output budget is exhausted, and drops the response.
    private func refuseOutput(_ common: HTTPHeaders, _ minorVersion: Int) {
        service.counters.rejected.bump()
        let (contentType, body) = service.settings.errorBody(
            503, "Too many responses wait for their readers. Try again later.")
        var headers: HTTPHeaders = ["Content-Type": contentType]
        headers.add("Retry-After", 1)
        answer(
            status: 503, common: common, headers: headers, body: Array(body.prefix(Self.copiedBodyMax)), isHead: false,
            minorVersion: minorVersion)
    }

    /// Begins a response without an end; the connection accepts no further requests.
    func beginStream(status: Int, common: HTTPHeaders, headers: HTTPHeaders, isUpgrade: Bool) {
        guard phase == .answering else { return }
        if !isDriving { corkStart = service.scratch.count }
        writeHead(status: status, common: common, headers: headers)
        service.scratch.append(isUpgrade ? "Connection: Upgrade\r\n\r\n" : "Connection: close\r\n\r\n")
        phase = .streaming
        keepsAlive = false
        releaseBody()
        flushCork()
        if peerFinished { return die() }
        setReadMode(.normal)
        if !pending.isEmpty { later() }
    }

    private func writeHead(status: Int, common: HTTPHeaders = [:], headers: HTTPHeaders) {
        let scratch = service.scratch
        if let line = StatusLine.ready(status) {
            scratch.append(line)
        } else {
            scratch.append("HTTP/1.1 ")
            scratch.append(decimal: status)
            scratch.append(" ")
            for byte in StatusLine.reason(status).utf8 { scratch.append(byte: byte) }
            scratch.append("\r\n")
        }
        scratch.append("Date: ")
        service.appendDate()
        scratch.append("\r\n")
        if !common.isEmpty { scratch.append(common.encoded) }
        scratch.append(headers.encoded)
    }

    private func finishExchange(closes: Bool) {
        let ended = exchange
        exchange = nil
        ended?.finish()
        releaseBody()
        guard !isDead else { return }
        if closes {
            // A peer that requested the connection's end sends no further input that would cause a reset.
            endAfterFlush(lingers: keepsAlive || hasMoreInput || !pending.isEmpty)
            return
        }
        phase = .idle
        if output.isEmpty { arm(afterMilliseconds: service.settings.idleTimeoutMilliseconds) }
        if !isDriving, !pending.isEmpty || peerFinished || readMode == .off { later() }
    }

    // MARK: The server's own replies

    /// Refuses the peer's input and ends the connection.
    func refuse(_ reason: ParseFailure) {
        service.counters.parseErrors.bump()
        reply(reason.status, reason.text)
    }

    /// Sends an error reply and ends the connection.
    func reply(_ status: Int, _ text: String, retryAfterSeconds: UInt64? = nil) {
        let (contentType, body) = service.settings.errorBody(status, text)
        if !isDriving { corkStart = service.scratch.count }
        var headers: HTTPHeaders = ["Content-Type": contentType, "Connection": "close"]
        if let retryAfterSeconds { headers.add("Retry-After", retryAfterSeconds) }
        headers.add("Content-Length", UInt64(body.count))
        writeHead(status: status, headers: headers)
        service.scratch.append("\r\n")
        service.scratch.append(body)
        flushCork()
        endAfterFlush(lingers: true)
    }

    // MARK: Sending

    /// Sends shared bytes, or appends them to the queue.
    func send(_ bytes: SharedBytes) {
        guard phase == .streaming, bytes.count > 0 else { return }
        var sent = 0
        if output.isEmpty {
            guard let count = settle(bytes.bytes.withUnsafeBytes { transport.send($0) }) else { return }
            sent = count
        }
        enqueue(bytes, offset: sent, isDroppable: true)
    }

    /// Queues partly sent bytes. Ends the connection if the output budget of all connections is exhausted.
    private func enqueue(_ bytes: SharedBytes, offset: Int = 0, isDroppable: Bool) {
        guard offset < bytes.count, !isDead else { return }
        guard bytes.enter(service.budget.output, account) else {
            service.counters.rejected.bump()
            return die()
        }
        queue(bytes, offset: offset, isDroppable: isDroppable)
    }

    /// Queues bytes that are already charged to the budget.
    private func queue(_ bytes: SharedBytes, offset: Int, isDroppable: Bool) {
        let isFirst = output.isEmpty
        output.append(bytes, offset: offset, isDroppable: isDroppable)
        if isFirst { outputBegins() }
    }

    /// Sends bytes of no queue; copies the unsent rest to the queue.
    func transmit(_ bytes: UnsafeRawBufferPointer) {
        guard !isDead else { return }
        var sent = 0
        if output.isEmpty {
            guard let count = settle(transport.send(bytes)) else { return }
            sent = count
        }
        guard sent < bytes.count else { return }
        enqueue(SharedBytes(Array(bytes[sent...])), isDroppable: false)
    }

    func transmit(_ text: StaticString) {
        transmit(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// Sends this connection's bytes in the loop's scratch buffer.
    func flushCork() {
        let scratch = service.scratch
        guard scratch.count > corkStart else { return }
        transmit(scratch.bytes(from: corkStart))
        scratch.truncate(to: corkStart)
    }

    /// Sends this connection's bytes in the scratch buffer, followed by a large body, which is not copied. The body is
    /// already charged to the budget.
    private func flushCork(followedBy large: SharedBytes) {
        let body = large.bytes
        let scratch = service.scratch
        let head = scratch.bytes(from: corkStart)
        var sent = 0
        if output.isEmpty {
            let outcome = body.withUnsafeBytes { raw in
                withUnsafeTemporaryAllocation(of: iovec.self, capacity: 2) { pieces in
                    pieces[0] = iovec(
                        iov_base: UnsafeMutableRawPointer(mutating: head.baseAddress), iov_len: head.count)
                    pieces[1] = iovec(
                        iov_base: UnsafeMutableRawPointer(mutating: raw.baseAddress), iov_len: raw.count)
                    return transport.send(pieces)
                }
            }
            guard let count = settle(outcome) else {
                large.leave()
                return scratch.truncate(to: corkStart)
            }
            sent = count
        }
        if sent < head.count { enqueue(SharedBytes(Array(head[sent...])), isDroppable: false) }
        if sent < head.count + body.count, !isDead {
            queue(large, offset: max(0, sent - head.count), isDroppable: false)
        } else {
            large.leave()
        }
        scratch.truncate(to: corkStart)
    }

    /// Returns the number of sent bytes. If the connection has failed, ends it and returns nil.
    private func settle(_ outcome: StreamOutcome) -> Int? {
        switch outcome {
        case .moved(let count):
            service.counters.bytesOut.bump(count)
            return count
        case .wouldBlock: return 0
        case .finished, .failed:
            die()
            return nil
        }
    }

    private func outputBegins() {
        armWrite()
        arm(afterMilliseconds: service.settings.writeStallTimeoutMilliseconds)
    }

    /// Handles a writable socket.
    func writable() {
        guard !isDead else { return }
        if transport.isHandshaking { return shakeHands() }
        guard !output.isEmpty else {
            disarmWrite()
            if case .flushing(let lingers) = phase { flushed(lingers: lingers) }
            return
        }
        let outcome = withUnsafeTemporaryAllocation(of: iovec.self, capacity: Self.vectorMax) { vector in
            output.withFront(vector) { transport.send($0) }
        }
        guard let sent = settle(outcome), sent > 0 else { return }
        output.removeSent(sent)
        if output.isEmpty {
            disarmWrite()
            drained()
        } else {
            arm(afterMilliseconds: service.settings.writeStallTimeoutMilliseconds)
        }
    }

    /// Removes and returns the queued chunks that are unsent and may be dropped.
    func dropUnsent() -> [SharedBytes] {
        guard !output.isEmpty else { return [] }
        let dropped = output.dropUnsent(committedBytes: transport.committedBytes)
        if output.isEmpty, !isDead {
            disarmWrite()
            deadlineMilliseconds = .max
            if case .flushing(let lingers) = phase { flushed(lingers: lingers) }
        }
        return dropped
    }

    private func drained() {
        switch phase {
        case .idle:
            arm(afterMilliseconds: service.settings.idleTimeoutMilliseconds)
            resume()
        case .receiving:
            // The queued output was an interim response; now the body may arrive.
            arm(afterMilliseconds: service.settings.bodyTimeoutMilliseconds)
            resume()
        case .answering, .dead: deadlineMilliseconds = .max
        case .streaming:
            deadlineMilliseconds = .max
            exchange?.drained()
        case .flushing(let lingers): flushed(lingers: lingers)
        case .lingering: break
        }
    }

    // MARK: Ending

    /// Accepts no further request, and ends when all queued output is sent.
    func endAfterFlush(lingers: Bool) {
        guard !isDead else { return }
        if let parser {
            service.parsers.giveBack(parser)
            self.parser = nil
        }
        releaseBody()
        pending = []
        phase = .flushing(lingers: lingers)
        if output.isEmpty { flushed(lingers: lingers) } else if !peerFinished { setReadMode(.normal) }
    }

    private func flushed(lingers: Bool) {
        guard lingers, !peerFinished else { return die() }
        guard transport.finishSending() else { return outputBegins() }
        phase = .lingering
        setReadMode(.normal)
        arm(afterMilliseconds: service.settings.lingerTimeoutMilliseconds)
    }
}
