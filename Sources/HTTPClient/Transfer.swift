internal import CCurl
internal import Runtime

/// A request in flight, including its redirects. Belongs to the client's thread; libcurl holds a pointer to it until `free`.
final class Transfer {
    let easy: UnsafeMutableRawPointer
    let id: HTTPClient.RequestID
    let request: HTTPClientRequest
    let slot: Inbox.Slot
    let pool: ConnectionPool
    private let completion: HTTPClient.Completion
    private let deadlineMilliseconds: Milliseconds
    /// The current request, which redirects change.
    private var hop: Hop
    private let addresses: AddressGuard
    private let connection: ConnectionCheck
    /// Whether the request is being repeated on a new connection.
    private var isRepeated = false
    /// Whether a response has begun, and whether it cannot be the response to this request.
    private var hasStatus = false
    private var isStray = false
    /// Whether the empty line after the headers has arrived.
    private var hasHead = false
    private var isFreed = false
    private var headerList: UnsafeMutablePointer<curl_slist>?
    private var headers: [(name: String, value: String)] = []
    private var responseBody: [UInt8] = []
    /// The work that this attempt has caused.
    private var effort = ResponseEffort()
    private var isTooLarge = false
    private var isTruncated = false

    init(_ item: Inbox.Item, _ pool: ConnectionPool, _ settings: HTTPClient.Settings) throws(HTTPClientError) {
        guard let easy = curl_easy_init() else { throw .cannotStart("no memory for a request") }
        self.easy = easy
        self.pool = pool
        id = item.id
        request = item.request
        slot = item.slot
        completion = item.completion
        let begin = item.request.queueMilliseconds == nil ? item.sentAt : Clock.monotonicMilliseconds
        deadlineMilliseconds = begin + item.request.timeoutMilliseconds
        hop = Hop(item.request)
        addresses = AddressGuard(item.request.addresses)
        connection = ConnectionCheck(addresses, pool, easy)
        do throws(HTTPClientError) {
            try prepare(settings)
            try prepareHop()
        } catch {
            free()
            throw error
        }
    }

    deinit { free() }

    /// Frees the transfer's resources in libcurl. The pool must not be closed earlier.
    func free() {
        guard !isFreed else { return }
        isFreed = true
        curl_easy_cleanup(easy)
        curl_slist_free_all(headerList)
    }

    private func prepare(_ settings: HTTPClient.Settings) throws(HTTPClientError) {
        let mayBePlain = request.allowsPlainHTTP && request.pinnedPublicKey == nil
        try set(CURLOPT_PROTOCOLS_STR, mayBePlain ? "http,https" : "https")
        // A connection then carries one request at a time, and responses can be matched to requests.
        try set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        try set(CURLOPT_NOSIGNAL, 1)
        // Name resolution may outlast the request. The client's thread leaves it to libcurl's own thread and does not wait for it.
        try set(CURLOPT_QUICK_EXIT, 1)
        try set(CURLOPT_CONNECTTIMEOUT_MS, Int(request.connectTimeoutMilliseconds))
        // This class follows redirects itself, according to the request.
        try set(CURLOPT_FOLLOWLOCATION, 0)
        try set(CURLOPT_SSL_VERIFYPEER, 1)
        try set(CURLOPT_SSL_VERIFYHOST, 2)
        if let file = settings.certificateAuthoritiesFile { try set(CURLOPT_CAINFO, file) }
        if let pin = request.pinnedPublicKey { try set(pinned: pin) }
        try set(CURLOPT_USERAGENT, settings.userAgent)
        // With a proxy, the address of the connection would be the proxy's and not the server's.
        if request.avoidsProxies || request.addresses != .any { try set(CURLOPT_PROXY, "") }
        if !request.truncatesResponse { try set(CURLOPT_MAXFILESIZE, request.maxResponseBytes) }
        guard pool.attach(easy), connection.watch() else { throw .cannotStart("libcurl can't check connections") }
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

    /// Sets the options that differ between redirects.
    private func prepareHop() throws(HTTPClientError) {
        try set(CURLOPT_URL, hop.url)
        addresses.begin(ClientURL(hop.url))
        try prepareAttempt(isFresh: false)
        try prepareBody()
        try prepareHeaders()
    }

    /// Sets the options that differ between attempts.
    private func prepareAttempt(isFresh: Bool) throws(HTTPClientError) {
        let left = deadlineMilliseconds - Clock.monotonicMilliseconds
        guard left > 0 else { throw .timedOut }
        try set(CURLOPT_TIMEOUT_MS, Int(left))
        try set(CURLOPT_FRESH_CONNECT, isFresh ? 1 : 0)
        try set(CURLOPT_FORBID_REUSE, 0)
        isRepeated = isFresh
        connection.begin()
        headers.removeAll()
        responseBody.removeAll()
        hasStatus = false
        isStray = false
        hasHead = false
        effort = ResponseEffort()
        isTooLarge = false
        isTruncated = false
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
        // libcurl copies the body.
        let code = hop.body.withUnsafeBytes { bytes in
            pathmirror_curl_set_pointer(
                easy, CURLOPT_COPYPOSTFIELDS, UnsafeMutableRawPointer(mutating: bytes.baseAddress))
        }
        // An empty body must be set explicitly, as there are no bytes to copy.
        if hop.body.isEmpty { try set(CURLOPT_POSTFIELDS, "") } else { check(code) }
    }

    private func prepareHeaders() throws(HTTPClientError) {
        var list: UnsafeMutablePointer<curl_slist>?
        // Without this, large bodies would wait for a "100 Continue" response, which many servers never send.
        var lines = hop.body.isEmpty ? [] : ["Expect:"]
        for (name, value) in hop.headers {
            guard !name.isEmpty, (name + value).utf8.allSatisfy({ $0 >= 0x20 || $0 == 0x09 }) else {
                throw .badRequest("a header contains a line break")
            }
            // libcurl removes a header that is given as a name and a colon. A semicolon stands for an empty value.
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

    /// Accepts only a server with this public key. libcurl checks the key even if it verifies nothing else.
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

    /// Asserts that an option was accepted. These options fail only in versions of libcurl that do not have them.
    private func check(_ code: CURLcode) { assert(code == CURLE_OK) }

    // MARK: Receiving

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
        responseBody.append(contentsOf: bytes.prefix(room))
        if effort.takePiece(bodyBytes: responseBody.count), bytes.count <= room { return true }
        if request.truncatesResponse { isTruncated = true } else { isTooLarge = true }
        return false
    }

    private func takeHeader(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard effort.takeLine(bytes: bytes.count) else {
            isTooLarge = true
            return false
        }
        let line = String(decoding: bytes, as: UTF8.self)
        if line.hasPrefix("HTTP/") {
            hasStatus = true
            guard effort.takeStatus(pathmirror_curl_status(easy)) else {
                isTooLarge = true
                return false
            }
            guard connection.answersRequest(bodyBytes: hop.method == "HEAD" ? 0 : hop.body.count) else {
                isStray = true
                return false
            }
            // A new response begins: the final one after a 100, or the only one.
            headers.removeAll()
            responseBody.removeAll()
            hasHead = false
            isTruncated = false
            return true
        }
        if line.allSatisfy(\.isNewline) { hasHead = true }
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

    // MARK: Ending

    /// Returns whether the request is sent again, after a redirect or on a new connection. The transfer is then ready for libcurl.
    func continues(_ code: CURLcode) throws(HTTPClientError) -> Bool {
        if needsFreshConnection(code) {
            try prepareAttempt(isFresh: true)
            return true
        }
        return try isRedirected(code)
    }

    /// Returns whether the server had given up the connection, or had sent bytes on it without a request. The server has then not
    /// answered the request, so the request is sent once more.
    private func needsFreshConnection(_ code: CURLcode) -> Bool {
        guard connection.isReused, !isRepeated else { return false }
        if connection.isDirty || isStray { return true }
        guard hasStatus else {
            return [CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_GOT_NOTHING].contains { $0 == code }
        }
        guard isResponse(code) else { return false }
        // Servers send these responses before they close a connection that was idle for too long.
        switch pathmirror_curl_status(easy) {
        case 408: return true
        case 400:
            return headers.contains { $0.name == "connection" && $0.value.lowercased().contains("close") }
        default: return false
        }
    }

    /// Returns whether the response is a redirect to follow, and prepares the next request.
    private func isRedirected(_ code: CURLcode) throws(HTTPClientError) -> Bool {
        guard isResponse(code), request.maxRedirects > 0,
            let target = pathmirror_curl_redirect(easy).map({ String(cString: $0) }),
            let next = hop.redirected(to: target, status: pathmirror_curl_status(easy), request)
        else { return false }
        guard hop.count < request.maxRedirects else { throw .tooManyRedirects }
        hop = next
        try prepareHop()
        return true
    }

    /// Returns whether the received data is a response with complete headers. libcurl reports success also if the connection
    /// ends within the headers.
    private func isResponse(_ code: CURLcode) -> Bool { code == CURLE_OK && hasHead || isTruncated }

    /// Returns the outcome for `finish`.
    func outcome(_ code: CURLcode) -> Result<ClientResponse, HTTPClientError> {
        guard isResponse(code) else { return .failure(error(code)) }
        return .success(
            ClientResponse(
                status: pathmirror_curl_status(easy), headers: headers, body: responseBody, isTruncated: isTruncated))
    }

    /// Whether a thread of libcurl may still be resolving the server's name after the transfer is freed.
    var leavesResolver: Bool { connection.isResolving }

    func finish(_ outcome: Result<ClientResponse, HTTPClientError>) { completion(outcome) }

    private func error(_ code: CURLcode) -> HTTPClientError {
        if let refusal = addresses.refusal(for: code) { return refusal }
        if isStray { return .failed("the response began before the request was sent") }
        if isTooLarge || code == CURLE_FILESIZE_EXCEEDED { return .responseTooLarge }
        if code == CURLE_OK { return .failed("the connection ended within the response's headers") }
        let text = String(cString: curl_easy_strerror(code))
        switch code {
        case CURLE_OPERATION_TIMEDOUT: return .timedOut
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT: return .unreachable(text)
        case CURLE_TOO_MANY_REDIRECTS: return .tooManyRedirects
        // A non-HTTP answer produces this code, too. In that case a request was sent and no status arrived.
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

/// A request to one of the servers in a chain of redirects. A value.
struct Hop {
    let url: String
    let method: String
    let headers: [(name: String, value: String)]
    let body: [UInt8]
    /// The number of redirects that have led here.
    let count: Int
    /// Whether the origin is still the one that may receive the credentials.
    private let isTrusted: Bool

    init(_ request: HTTPClientRequest) {
        url = request.url
        method = request.method
        headers = request.headers + request.credentials
        body = request.body
        count = 0
        isTrusted = true
    }

    private init(url: String, method: String, _ request: HTTPClientRequest, hasBody: Bool, count: Int, isTrusted: Bool)
    {
        self.url = url
        self.method = method
        let bodyHeaders: Set<String> = hasBody ? [] : ["content-type", "content-encoding", "content-length"]
        headers =
            request.headers.filter { !bodyHeaders.contains($0.name.lowercased()) }
            + (isTrusted ? request.credentials : [])
        body = hasBody ? request.body : []
        self.count = count
        self.isTrusted = isTrusted
    }

    /// Returns the hop after a redirect to `target`, or nil if the response is not a redirect to follow.
    func redirected(to target: String, status: Int, _ request: HTTPClientRequest) -> Hop? {
        let repeats = status == 307 || status == 308
        guard repeats || (301...303).contains(status) && request.redirects == .all else { return nil }
        var isTrusted = isTrusted
        if let here = ClientURL(url), let there = ClientURL(target) {
            isTrusted = isTrusted && there.hasOrigin(of: here)
        } else {
            isTrusted = false
        }
        let reads = !repeats && method != "HEAD"
        return Hop(
            url: target, method: reads ? "GET" : method, request, hasBody: repeats && !body.isEmpty, count: count + 1,
            isTrusted: isTrusted)
    }
}
