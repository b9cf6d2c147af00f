internal import CCurl
internal import Runtime

/// The client's thread: starts requests that have a slot, and has libcurl process the sockets that are ready.
///
/// The cost of a turn depends on the number of ready sockets, not on the number of transfers that wait for their servers.
final class TransferLoop {
    private let inbox: Inbox
    private let settings: HTTPClient.Settings
    private let multi: MultiHandle
    private let poller: SocketPoller
    private let pools: ConnectionPools
    private var transfers: [UnsafeMutableRawPointer: Transfer] = [:]
    private var handles: [HTTPClient.RequestID: UnsafeMutableRawPointer] = [:]
    private var heldSlots = HeldSlots()
    /// The time at which libcurl has work that depends on no socket.
    private var timer: Milliseconds?
    private static let longestWait: Milliseconds = 60_000

    init(_ inbox: Inbox, _ multi: MultiHandle, _ poller: SocketPoller, _ settings: HTTPClient.Settings) {
        self.inbox = inbox
        self.multi = multi
        self.poller = poller
        self.settings = settings
        pools = ConnectionPools(multi.pointer, most: settings.maxConnections)
    }

    func run() {
        watch()
        while true {
            let now = Clock.monotonicMilliseconds
            for slot in heldSlots.release(at: now) { inbox.done(slot) }
            let work = inbox.take(at: now)
            for item in work.expired { item.completion(.failure(.notSent("no slot was free in time"))) }
            if work.isClosed { return abandon(work.items) }
            for item in work.items { begin(item) }
            for id in work.cancelled { cancel(id) }
            // A request that ends frees its slot for the next one.
            if workOnTimer() || finishDone() { continue }
            pools.tidy(at: Clock.monotonicMilliseconds)
            for ready in poller.wait(milliseconds: pause(work.nextDeadline)) { workOn(ready) }
            _ = finishDone()
        }
    }

    private func pause(_ deadline: Milliseconds?) -> Int32 {
        let now = Clock.monotonicMilliseconds
        var pause = Self.longestWait
        for due in [timer, deadline, pools.nextTidying, heldSlots.nextDue] {
            if let due { pause = min(pause, max(0, due - now)) }
        }
        return Int32(pause)
    }

    // MARK: libcurl

    private func watch() {
        let context = Unmanaged.passUnretained(self).toOpaque()
        _ = pathmirror_curl_multi_set_watcher(
            multi.pointer,
            { _, socket, what, context, _ in
                guard let context else { return 0 }
                let poller = Unmanaged<TransferLoop>.fromOpaque(context).takeUnretainedValue().poller
                guard what != CURL_POLL_REMOVE else {
                    poller.remove(socket)
                    return 0
                }
                let id = UInt64(UInt32(bitPattern: socket))
                let read = what == CURL_POLL_IN || what == CURL_POLL_INOUT
                let write = what == CURL_POLL_OUT || what == CURL_POLL_INOUT
                // The kernel removes a socket from the poller when it is closed, and reuses its number.
                if !poller.change(socket, id: id, read: read, write: write) {
                    _ = poller.add(socket, id: id, read: read, write: write)
                }
                return 0
            }, context)
        _ = pathmirror_curl_multi_set_timer(
            multi.pointer,
            { _, milliseconds, context in
                guard let context else { return 0 }
                let loop = Unmanaged<TransferLoop>.fromOpaque(context).takeUnretainedValue()
                loop.timer = milliseconds < 0 ? nil : Clock.monotonicMilliseconds + Milliseconds(milliseconds)
                return 0
            }, context)
    }

    /// Returns whether the timer was due.
    private func workOnTimer() -> Bool {
        guard let due = timer, due <= Clock.monotonicMilliseconds else { return false }
        timer = nil
        var running: Int32 = 0
        curl_multi_socket_action(multi.pointer, CURL_SOCKET_BAD, 0, &running)
        _ = finishDone()
        return true
    }

    private func workOn(_ ready: SocketPoller.Ready) {
        var events: Int32 = 0
        if ready.canRead { events |= CURL_CSELECT_IN }
        if ready.canWrite { events |= CURL_CSELECT_OUT }
        if ready.isBroken { events |= CURL_CSELECT_ERR }
        var running: Int32 = 0
        curl_multi_socket_action(multi.pointer, Int32(truncatingIfNeeded: ready.id), events, &running)
    }

    private func begin(_ item: Inbox.Item) {
        guard let pool = pools.enter(item.request.connections) else {
            inbox.done(item.slot)
            return item.completion(.failure(.cannotStart("no memory for a request")))
        }
        do throws(HTTPClientError) {
            let transfer = try Transfer(item, pool, settings)
            guard curl_multi_add_handle(multi.pointer, transfer.easy) == CURLM_OK else {
                transfer.free()
                throw .cannotStart("libcurl accepts no more requests")
            }
            transfers[transfer.easy] = transfer
            handles[item.id] = transfer.easy
        } catch {
            pools.leave(pool, at: Clock.monotonicMilliseconds)
            inbox.done(item.slot)
            item.completion(.failure(error))
        }
    }

    /// Returns whether any transfer has ended.
    private func finishDone() -> Bool {
        var left: Int32 = 0
        var hasEnded = false
        while let message = curl_multi_info_read(multi.pointer, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle else { continue }
            hasEnded = true
            let code = pathmirror_curl_result(message)
            curl_multi_remove_handle(multi.pointer, easy)
            guard let transfer = transfers[easy] else { continue }
            do throws(HTTPClientError) {
                if try transfer.continues(code) {
                    guard curl_multi_add_handle(multi.pointer, easy) == CURLM_OK else {
                        throw .cannotStart("libcurl accepts no more requests")
                    }
                    continue
                }
                end(transfer, transfer.outcome(code))
            } catch {
                end(transfer, .failure(error))
            }
        }
        return hasEnded
    }

    /// Frees a transfer that libcurl no longer processes, and reports the outcome. Also frees the slot, unless a thread is
    /// still resolving the name.
    private func end(_ transfer: Transfer, _ outcome: Result<ClientResponse, HTTPClientError>) {
        transfers[transfer.easy] = nil
        handles[transfer.id] = nil
        transfer.free()
        let now = Clock.monotonicMilliseconds
        pools.leave(transfer.pool, at: now)
        if transfer.leavesResolver, Self.isEarly(outcome) {
            heldSlots.hold(transfer.slot, at: now)
        } else {
            inbox.done(transfer.slot)
        }
        transfer.finish(outcome)
    }

    /// Returns whether a request ended before its server or its resolver ended it.
    private static func isEarly(_ outcome: Result<ClientResponse, HTTPClientError>) -> Bool {
        switch outcome {
        case .failure(.timedOut), .failure(.cancelled): true
        default: false
        }
    }

    private func cancel(_ id: HTTPClient.RequestID) {
        guard let easy = handles[id], let transfer = transfers[easy] else { return }
        curl_multi_remove_handle(multi.pointer, easy)
        end(transfer, .failure(.cancelled))
    }

    private func abandon(_ items: [Inbox.Item]) {
        let refusal = HTTPClientError.refused("the client has stopped")
        for item in items { item.completion(.failure(refusal)) }
        for transfer in Array(transfers.values) {
            curl_multi_remove_handle(multi.pointer, transfer.easy)
            end(transfer, .failure(refusal))
        }
        pools.closeAll()
        _ = pathmirror_curl_multi_set_watcher(multi.pointer, nil, nil)
        _ = pathmirror_curl_multi_set_timer(multi.pointer, nil, nil)
    }
}

/// libcurl's handle for many transfers.
///
/// @unchecked Sendable is safe: the client passes the handle to its thread and does not use it itself. The handle is freed when
/// neither holds it any longer.
final class MultiHandle: @unchecked Sendable {
    let pointer: UnsafeMutableRawPointer

    /// Returns nil if there is no memory.
    init?() {
        guard let pointer = curl_multi_init() else { return nil }
        self.pointer = pointer
    }

    deinit { curl_multi_cleanup(pointer) }
}
