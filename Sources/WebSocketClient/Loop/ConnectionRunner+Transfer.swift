import ClientCore
import Runtime
import TLS

extension ConnectionRunner {
    /// Maximum number of pieces that are read, or written, before other connections get their turn.
    private static var piecesAtOnce: Int { 8 }

    /// Reads available input and sends waiting output, as far as the socket permits.
    func transfer(_ link: ConnectedSocket) {
        receive(link)
        if case .over = stage { return }
        send(link)
        if case .over = stage { return }
        link.wait(read: !isPaused, write: wasFull)
    }

    // MARK: Output

    private func send(_ link: ConnectedSocket) {
        wasFull = false
        for _ in 0..<Self.piecesAtOnce {
            // Frames follow the server's answer to the upgrade.
            var sendsTexts = true
            if case .upgrading = stage { sendsTexts = false }
            switch output.flush(link, texts: sendsTexts) {
            case .moved(0): return
            case .moved: break
            case .wouldBlock:
                wasFull = true
                return
            case .finished, .failed: return broken(link)
            }
        }
        loop.resumeSoon(self)
    }

    private func broken(_ link: ConnectedSocket) {
        // The peer may have sent the reason before it disconnected.
        receive(link)
        if case .over = stage { return }
        end(isClosing ? .byUs : .broken("the connection was lost"))
    }

    private var isClosing: Bool { if case .closing = stage { true } else { false } }

    // MARK: Input

    private func receive(_ link: ConnectedSocket) {
        for _ in 0..<Self.piecesAtOnce {
            guard !isPaused else { return }
            switch link.stream.receive(into: loop.scratch) {
            case .moved(let count):
                take(UnsafeRawBufferPointer(rebasing: loop.scratch[..<count]), link)
                if case .over = stage { return }
                // A partly filled buffer means that the input is exhausted, unless the TLS library holds more.
                if count < loop.scratch.count, !link.stream.holdsInput { return }
            case .wouldBlock: return
            case .finished:
                return end(isClosing ? .byUs : .broken("the server ended the connection without a close frame"))
            case .failed(let number):
                return end(isClosing ? .byUs : .broken(SystemError(number: number).description))
            }
        }
        loop.resumeSoon(self)
    }

    private func take(_ bytes: UnsafeRawBufferPointer, _ link: ConnectedSocket) {
        switch stage {
        case .upgrading(_, let upgrade): takeHead(bytes, upgrade, link)
        case .open, .closing: takeFrames(bytes, link)
        case .lookingUp, .dialing, .shakingHands, .over: break
        }
    }

    private func takeHead(_ bytes: UnsafeRawBufferPointer, _ upgrade: Upgrade, _ link: ConnectedSocket) {
        head.append(contentsOf: bytes)
        switch upgrade.read(head) {
        case .incomplete: break
        case .refused(let status, let reason): end(.refused(status: status, reason))
        case .accepted(let byteCount):
            let frames = Array(head[byteCount...])
            head = []
            stage = .open(link)
            loop.setDeadline(nil, for: self)
            report(.opened)
            // Requests that the observer makes now reach this connection through the loop.
            if !frames.isEmpty { frames.withUnsafeBytes { takeFrames($0, link) } }
        }
    }

    private func takeFrames(_ bytes: UnsafeRawBufferPointer, _ link: ConnectedSocket) {
        var heard = false
        var goodbye: (code: UInt16, reason: String)?
        do throws(FrameReader.Violation) {
            try reader.take(bytes) { event in
                guard goodbye == nil else { return }
                switch event {
                case .text(let text):
                    heard = true
                    received(text)
                case .ping(let payload): output.addPong(payload)
                case .pong: break
                case .close(let code, let reason): goodbye = (code, reason)
                }
            }
        } catch {
            return violated(error, link)
        }
        if let goodbye { return peerSaidGoodbye(goodbye.code, goodbye.reason, link) }
        unfinishedBytes = heard ? 0 : unfinishedBytes + bytes.count
        if !heard, !isClosing { noteProgress() }
    }

    private func received(_ text: [UInt8]) {
        // A closing connection delivers no more messages.
        guard !isClosing else { return }
        unprocessedBytes += WebSocketChannel.cost(text.count)
        report(.received(text))
        guard unprocessedBytes > loop.settings.maxUnprocessedBytes, !isPaused else { return }
        isPaused = true
        unprocessedBytes -= channel.setPaused(true)
        resumeIfProcessed()
    }

    /// Resumes reading once half of the limit of unprocessed bytes has been processed.
    func resumeIfProcessed() {
        guard isPaused, unprocessedBytes <= loop.settings.maxUnprocessedBytes / 2 else { return }
        isPaused = false
        unprocessedBytes -= channel.setPaused(false)
    }

    private func violated(_ violation: FrameReader.Violation, _ link: ConnectedSocket) {
        output.dropTexts()
        output.addClose(code: violation.code)
        _ = output.flush(link)
        end(isClosing ? .byUs : .violation(violation.reason))
    }

    private func peerSaidGoodbye(_ code: UInt16, _ reason: String, _ link: ConnectedSocket) {
        if isClosing { return end(.byUs) }
        output.dropTexts()
        output.addClose(code: code == 1005 ? 1000 : code)
        _ = output.flush(link)
        end(.byPeer(code: code, reason: String(reason.unicodeScalars.prefix(200))))
    }
}
