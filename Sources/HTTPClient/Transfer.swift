internal import CCurl
internal import Runtime

/// One request on its way, redirects included. Belongs to the client's thread; libcurl holds a pointer to it until `finish`.
final class Transfer {
    let easy: UnsafeMutableRawPointer
    let id: HTTPClient.RequestID
    private let request: ClientRequest
    private let completion: HTTPClient.Completion
    private let deadlineMilliseconds: Milliseconds
    /// What is asked for now; redirects change it.
    private var hop: Hop
    private let addresses: AddressGuard
    private var headerList: UnsafeMutablePointer<curl_slist>?
    private var headers: [(name: String, value: String)] = []
    private var responseBody: [UInt8] = []
    private var isTooLarge = false
    private var isTruncated = false

    init(_ item: Inbox.Item, _ settings: HTTPClient.Settings) throws(HTTPClientError) {
        guard let easy = curl_easy_init() else { throw .cannotStart("no memory for a request") }
        self.easy = easy
        id = item.id
        request = item.request
        completion = item.completion
        deadlineMilliseconds = item.deadlineMilliseconds
        hop = Hop(item.request)
        addresses = AddressGuard(item.request.addresses)
        try prepare(settings)
        try prepareHop()
    }

    deinit {
        curl_easy_cleanup(easy)
        curl_slist_free_all(headerList)
    }

    private func prepare(_ settings: HTTPClient.Settings) throws(HTTPClientError) {
        let mayBePlain = request.allowsPlainHTTP && request.pinnedPublicKey == nil
        try set(CURLOPT_PROTOCOLS_STR, mayBePlain ? "http,https" : "https")
        try set(CURLOPT_NOSIGNAL, 1)
        try set(CURLOPT_CONNECTTIMEOUT_MS, Int(request.connectTimeoutMilliseconds))
        // They are followed here: which ones, with what, and where to is for the request to say.
        try set(CURLOPT_FOLLOWLOCATION, 0)
        try set(CURLOPT_SSL_VERIFYPEER, 1)
        try set(CURLOPT_SSL_VERIFYHOST, 2)
        if let file = settings.certificateAuthoritiesFile { try set(CURLOPT_CAINFO, file) }
        if let pin = request.pinnedPublicKey { try set(pinned: pin) }
        try set(CURLOPT_USERAGENT, settings.userAgent)
        if request.avoidsProxies { try set(CURLOPT_PROXY, "") }
        if !request.truncatesResponse { try set(CURLOPT_MAXFILESIZE, request.maxResponseBytes) }
        guard addresses.watch(easy) else { throw .cannotStart("libcurl can't look at addresses") }
        let context = Unmanaged.passUnretained(self).toOpaque()
        check(pathmirror_curl_set_pointer(easy, CURLOPT_PRIVATE, context))
        check(pathmirror_curl_set_pointer(easy, CURLOPT_WRITEDATA, context))
        check(pathmirror_curl_set_pointer(easy, CURLOPT_HEADERDATA, context))
        check(
            pathmirror_curl_set_sink(easy, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
                Transfer.received(bytes, size * count, context) { $0.takeBody($1) }
            })
        check(
            pathmirror_curl_set_sink(easy, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
                Transfer.received(bytes, size * count, context) { $0.takeHeader($1) }
            })
    }

    /// What differs from one redirect to the next.
    private func prepareHop() throws(HTTPClientError) {
        let left = deadlineMilliseconds - Clock.monotonicMilliseconds
        guard left > 0 else { throw .timedOut }
        try set(CURLOPT_TIMEOUT_MS, Int(left))
        try set(CURLOPT_URL, hop.url)
        addresses.begin(ClientURL(hop.url))
        try prepareBody()
        try prepareHeaders()
    }

    private func prepareBody() throws(HTTPClientError) {
        if hop.method == "HEAD" { return try set(CURLOPT_NOBODY, 1) }
        guard hop.method != "GET" || !hop.body.isEmpty else {
            if hop.count > 0 {
                try set(CURLOPT_HTTPGET, 1)
                check(pathmirror_curl_set_pointer(easy, CURLOPT_CUSTOMREQUEST, nil))
            }
            return
        }
        try set(CURLOPT_CUSTOMREQUEST, hop.method)
        guard !hop.body.isEmpty || hop.method == "POST" || hop.method == "PUT" else { return }
        check(pathmirror_curl_set_size(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(hop.body.count)))
        // libcurl takes a copy.
        let code = hop.body.withUnsafeBytes { bytes in
            pathmirror_curl_set_pointer(
                easy, CURLOPT_COPYPOSTFIELDS, UnsafeMutableRawPointer(mutating: bytes.baseAddress))
        }
        // An empty body has no bytes to copy, but is one.
        if hop.body.isEmpty { try set(CURLOPT_POSTFIELDS, "") } else { check(code) }
    }

    private func prepareHeaders() throws(HTTPClientError) {
        var list: UnsafeMutablePointer<curl_slist>?
        // Else large bodies would wait for a server's leave, which many never give.
        var lines = hop.body.isEmpty ? [] : ["Expect:"]
        for (name, value) in hop.headers {
            guard !name.isEmpty, (name + value).utf8.allSatisfy({ $0 >= 0x20 || $0 == 0x09 }) else {
                throw .badRequest("a header has a line break in it")
            }
            // A header without value is written with a semicolon; with a colon it would be removed.
            lines.append(value.isEmpty ? "\(name);" : "\(name): \(value)")
        }
        for line in lines {
            guard let longer = curl_slist_append(list, line) else {
                curl_slist_free_all(list)
                throw .cannotStart("no memory for a request")
            }
            list = longer
        }
        check(pathmirror_curl_set_list(easy, CURLOPT_HTTPHEADER, list))
        curl_slist_free_all(headerList)
        headerList = list
    }

    /// Has the server prove that it has this key, and nothing else: libcurl looks at the key also where it verifies nothing more.
    private func set(pinned pin: String) throws(HTTPClientError) {
        guard pin.utf8.count == 44 else { throw .badRequest("a public key's digest has 32 bytes") }
        try set(CURLOPT_PINNEDPUBLICKEY, "sha256//\(pin)")
        try set(CURLOPT_SSL_VERIFYPEER, 0)
        try set(CURLOPT_SSL_VERIFYHOST, 0)
    }

    private func set(_ option: CURLoption, _ value: Int) throws(HTTPClientError) {
        guard pathmirror_curl_set_long(easy, option, value) == CURLE_OK else { throw .badRequest("bad option") }
    }

    private func set(_ option: CURLoption, _ value: String) throws(HTTPClientError) {
        guard pathmirror_curl_set_text(easy, option, value) == CURLE_OK else { throw .badRequest("bad option") }
    }

    /// Of options that only a libcurl without them refuses, and this program is linked with one that has them.
    private func check(_ code: CURLcode) { assert(code == CURLE_OK) }

    // MARK: What comes in

    private static func received(
        _ bytes: UnsafeMutablePointer<CChar>?, _ count: Int, _ context: UnsafeMutableRawPointer?,
        _ take: (Transfer, UnsafeRawBufferPointer) -> Bool
    ) -> Int {
        guard let context, let bytes else { return 0 }
        let transfer = Unmanaged<Transfer>.fromOpaque(context).takeUnretainedValue()
        return take(transfer, UnsafeRawBufferPointer(start: bytes, count: count)) ? count : 0
    }

    private func takeBody(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let room = request.maxResponseBytes - responseBody.count
        guard bytes.count <= room else {
            responseBody.append(contentsOf: bytes.prefix(room))
            if request.truncatesResponse { isTruncated = true } else { isTooLarge = true }
            return false
        }
        responseBody.append(contentsOf: bytes)
        return true
    }

    private func takeHeader(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let line = String(decoding: bytes, as: UTF8.self)
        if line.hasPrefix("HTTP/") {
            // The response after a redirect or a 100.
            headers.removeAll()
            responseBody.removeAll()
            isTruncated = false
            return true
        }
        guard let colon = line.firstIndex(of: ":") else { return true }
        guard headers.count < 200 else {
            isTooLarge = true
            return false
        }
        let value = line[line.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
        let end = value.lastIndex { !$0.isWhitespace }
        headers.append((line[..<colon].lowercased(), end.map { String(value[...$0]) } ?? ""))
        return true
    }

    // MARK: The end

    /// Whether the response is a redirect that is followed: then the transfer is ready to be given to libcurl again.
    func isRedirected(_ code: CURLcode) throws(HTTPClientError) -> Bool {
        guard code == CURLE_OK || isTruncated, request.maxRedirects > 0,
            let target = pathmirror_curl_redirect(easy).map({ String(cString: $0) }),
            let next = hop.redirected(to: target, status: pathmirror_curl_status(easy), request)
        else { return false }
        guard hop.count < request.maxRedirects else { throw .tooManyRedirects }
        hop = next
        try prepareHop()
        return true
    }

    /// Tells the outcome. The transfer is out of libcurl's hands by then.
    func finish(_ code: CURLcode) {
        guard code == CURLE_OK || isTruncated else { return completion(.failure(error(code))) }
        completion(
            .success(
                ClientResponse(
                    status: pathmirror_curl_status(easy), headers: headers, body: responseBody, isTruncated: isTruncated
                )))
    }

    func fail(_ error: HTTPClientError) { completion(.failure(error)) }

    private func error(_ code: CURLcode) -> HTTPClientError {
        if let refusal = addresses.refusal(for: code) { return refusal }
        if isTooLarge || code == CURLE_FILESIZE_EXCEEDED { return .responseTooLarge }
        let text = String(cString: curl_easy_strerror(code))
        switch code {
        case CURLE_OPERATION_TIMEDOUT: return .timedOut
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT: return .unreachable(text)
        case CURLE_TOO_MANY_REDIRECTS: return .tooManyRedirects
        // An answer that isn't HTTP has this code too; then a request was sent, and no status came.
        case CURLE_UNSUPPORTED_PROTOCOL where pathmirror_curl_sent(easy) > 0 && pathmirror_curl_status(easy) == 0:
            return .failed("the answer is not HTTP")
        case CURLE_URL_MALFORMAT, CURLE_UNSUPPORTED_PROTOCOL: return .badRequest(text)
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM,
            CURLE_SSL_PINNEDPUBKEYNOTMATCH:
            return .insecure(text)
        default: return .failed(text)
        }
    }
}
