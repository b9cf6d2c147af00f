/// What one of the servers is asked, of which redirects make several. A value.
struct Hop {
    let url: String
    let method: String
    let headers: [(name: String, value: String)]
    let body: [UInt8]
    /// How many redirects have led here.
    let count: Int
    /// Whether this is still the server that was to get the credentials.
    private let isTrusted: Bool

    init(_ request: ClientRequest) {
        url = request.url
        method = request.method
        headers = request.headers + request.credentials
        body = request.body
        count = 0
        isTrusted = true
    }

    private init(url: String, method: String, _ request: ClientRequest, hasBody: Bool, count: Int, isTrusted: Bool) {
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

    /// The hop that a redirect to `target` leads to; nil where the response is none that is followed.
    func redirected(to target: String, status: Int, _ request: ClientRequest) -> Hop? {
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
