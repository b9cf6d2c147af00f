internal import CCurl

/// The client's thread: takes requests, lets libcurl work on all of them at once, and hands out what became of them.
final class TransferLoop {
    private let inbox: Inbox
    private let settings: HTTPClient.Settings
    private var transfers: [UnsafeMutableRawPointer: Transfer] = [:]
    private var handles: [HTTPClient.RequestID: UnsafeMutableRawPointer] = [:]

    init(_ inbox: Inbox, _ settings: HTTPClient.Settings) {
        self.inbox = inbox
        self.settings = settings
    }

    func run() {
        while true {
            // libcurl walks all that it was given each time it is called: what only waits, waits here.
            let work = inbox.take(limit: settings.maxConnections)
            if work.isClosed { return abandon(work.items) }
            for item in work.items { begin(item) }
            for id in work.cancelled { cancel(id) }
            var running: Int32 = 0
            curl_multi_perform(inbox.multi, &running)
            // Room for those that wait.
            if finishDone() { continue }
            // A wake ends it early. libcurl shortens it to its own next deadline.
            curl_multi_poll(inbox.multi, nil, 0, 60_000, nil)
        }
    }

    private func begin(_ item: Inbox.Item) {
        do throws(HTTPClientError) {
            let transfer = try Transfer(item, settings)
            guard curl_multi_add_handle(inbox.multi, transfer.easy) == CURLM_OK else {
                throw .cannotStart("libcurl takes no more requests")
            }
            transfers[transfer.easy] = transfer
            handles[item.id] = transfer.easy
        } catch {
            inbox.done(1)
            item.completion(.failure(error))
        }
    }

    /// True when some have ended.
    private func finishDone() -> Bool {
        var left: Int32 = 0
        var hasEnded = false
        while let message = curl_multi_info_read(inbox.multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle else { continue }
            hasEnded = true
            let code = pathmirror_curl_result(message)
            curl_multi_remove_handle(inbox.multi, easy)
            guard let transfer = transfers[easy] else { continue }
            do throws(HTTPClientError) {
                if try transfer.isRedirected(code) {
                    guard curl_multi_add_handle(inbox.multi, easy) == CURLM_OK else {
                        throw .cannotStart("libcurl takes no more requests")
                    }
                    continue
                }
                forget(transfer)
                transfer.finish(code)
            } catch {
                forget(transfer)
                transfer.fail(error)
            }
        }
        return hasEnded
    }

    private func forget(_ transfer: Transfer) {
        transfers[transfer.easy] = nil
        handles[transfer.id] = nil
        inbox.done(1)
    }

    private func cancel(_ id: HTTPClient.RequestID) {
        guard let easy = handles[id], let transfer = transfers[easy] else { return }
        curl_multi_remove_handle(inbox.multi, easy)
        forget(transfer)
        transfer.fail(.cancelled)
    }

    private func abandon(_ items: [Inbox.Item]) {
        for item in items { item.completion(.failure(.refused("the client has stopped"))) }
        for transfer in transfers.values {
            curl_multi_remove_handle(inbox.multi, transfer.easy)
            transfer.fail(.refused("the client has stopped"))
        }
        transfers.removeAll()
        handles.removeAll()
    }
}
