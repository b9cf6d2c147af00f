internal import CCurl

/// The client's thread: takes requests, lets libcurl work on all of them at once, and hands out what became of them.
final class TransferLoop {
    private let inbox: Inbox
    private let settings: HTTPClient.Settings
    private var transfers: [UnsafeMutableRawPointer: Transfer] = [:]

    init(_ inbox: Inbox, _ settings: HTTPClient.Settings) {
        self.inbox = inbox
        self.settings = settings
    }

    func run() {
        while true {
            // libcurl walks all that it was given each time it is called: what only waits, waits here.
            let (items, isClosed) = inbox.take(limit: settings.maxConnections)
            if isClosed { return abandon(items) }
            for item in items { begin(item) }
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
            let transfer = try Transfer(item.request, settings, item.completion)
            guard curl_multi_add_handle(inbox.multi, transfer.easy) == CURLM_OK else {
                throw .cannotStart("libcurl takes no more requests")
            }
            transfers[transfer.easy] = transfer
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
            guard let transfer = transfers.removeValue(forKey: easy) else { continue }
            inbox.done(1)
            transfer.finish(code)
        }
        return hasEnded
    }

    private func abandon(_ items: [Inbox.Item]) {
        for item in items { item.completion(.failure(.refused("the client has stopped"))) }
        for transfer in transfers.values {
            curl_multi_remove_handle(inbox.multi, transfer.easy)
            transfer.fail(.refused("the client has stopped"))
        }
        transfers.removeAll()
    }
}
