internal import HTTPClient
internal import Runtime
internal import Tree
internal import Wire

/// The reads of an upstream by REST: rules, settings and shallow children. Blocks its thread.
struct UpstreamREST {
    let address: UpstreamAddress
    let client: UpstreamRequests
    /// The number of bytes that the answers had, for the daily limit and reports.
    private(set) var receivedBytes: Int64 = 0

    init(_ address: UpstreamAddress, _ client: UpstreamRequests) {
        self.address = address
        self.client = client
    }

    /// The upstream's rules document.
    mutating func rules(_ credential: UpstreamCredential?) throws(FollowError) -> [UInt8] {
        try get("/.settings/rules.json", [], credential, maxBytes: 4 << 20)
    }

    /// The keys of the children at a path, and whether the answer contains all of them. A leaf has no keys.
    ///
    /// - Parameter most: the number of keys at which the upstream stops; nil for all.
    mutating func childKeys(
        _ path: Path, most: Int?, _ credential: UpstreamCredential?
    ) throws(FollowError) -> (keys: [Key], isComplete: Bool) {
        var query = ["shallow=true"]
        if let most { query = ["orderBy=%22%24key%22", "limitToFirst=\(most)", "shallow=true"] }
        let text = try get(Self.target(path), query, credential, maxBytes: 64 << 20)
        guard let members = RawJSON(text).members else { return ([], true) }
        return (members.map { Key($0.key) }, most.map { members.count < $0 } ?? true)
    }

    /// The number of bytes of the value at a path as JSON; nil if it is longer than `most`.
    mutating func size(_ path: Path, most: Int, _ credential: UpstreamCredential?) throws(FollowError) -> Int? {
        let response = try send(Self.target(path), [], credential, maxBytes: most, truncates: true)
        return response.isTruncated ? nil : response.body.count
    }

    /// Sends an update, which `null` makes a removal. Only for `FollowProbe`.
    mutating func update(_ path: Path, _ body: String, _ credential: UpstreamCredential?) throws(FollowError) {
        let isRemoval = body == "null"
        _ = try send(
            Self.target(path), [], credential, maxBytes: 1 << 20, truncates: false,
            method: isRemoval ? "DELETE" : "PATCH", body: isRemoval ? [] : Array(body.utf8))
    }

    private static func target(_ path: Path) -> String {
        path.isRoot ? "/.json" : path.keys.map { "/" + PercentEncoding.encode($0.text.utf8) }.joined() + ".json"
    }

    private mutating func get(
        _ target: String, _ query: [String], _ credential: UpstreamCredential?, maxBytes: Int
    ) throws(FollowError) -> [UInt8] {
        try send(target, query, credential, maxBytes: maxBytes, truncates: false).body
    }

    /// Sends a request and follows up to five redirects with status 307 or 308. The real service redirects to the host that has
    /// the database, where the request needs its credential again (reference: upstream-facts, Connection). The credential
    /// is sent only to the upstream's own host and to hosts of the same domain, and never from TLS to plain HTTP.
    private mutating func send(
        _ target: String, _ query: [String], _ credential: UpstreamCredential?, maxBytes: Int, truncates: Bool,
        method: String = "GET", body: [UInt8] = []
    ) throws(FollowError) -> ClientResponse {
        var query = query
        if let credential, !credential.isBearer {
            query.append("auth=" + PercentEncoding.encode(credential.text.revealed().utf8))
        }
        var url = address.url(target, query)
        for _ in 0...5 {
            var request = HTTPClientRequest(url)
            request.allowsPlainHTTP = !address.isSecure
            request.method = method
            request.body = body
            request.maxRedirects = 0
            request.maxResponseBytes = maxBytes
            request.truncatesResponse = truncates
            request.timeoutMilliseconds = 60_000
            if let credential, credential.isBearer {
                request.credentials = [("Authorization", "Bearer \(credential.text.revealed())")]
            }
            let response: ClientResponse
            do throws(HTTPClientError) {
                response = try client.perform(request)
            } catch {
                if error == .responseTooLarge { receivedBytes += Int64(maxBytes) }
                throw .unreachable("\(error)")
            }
            receivedBytes += Int64(response.body.count)
            switch response.status {
            case 200: return response
            case 307, 308:
                guard let location = response.header("location"), let next = ClientURL(location),
                    Self.mayReceiveCredential(next, from: address)
                else { throw .unexpected("a redirect to a host outside the upstream's domain") }
                url = location
            default: throw .refused(status: response.status, request: "\(method) \(target)", Self.reason(response))
            }
        }
        throw .unexpected("more than five redirects")
    }

    static func mayReceiveCredential(_ next: ClientURL, from address: UpstreamAddress) -> Bool {
        guard next.scheme == "https" || (next.scheme == "http" && !address.isSecure) else { return false }
        if next.host == address.host { return true }
        return !address.domain.isEmpty && next.host.hasSuffix("." + address.domain)
    }

    private static func reason(_ response: ClientResponse) -> String {
        let members = RawJSON(response.body).members ?? []
        guard let raw = members.first(where: { $0.key == "error" })?.value,
            case .string(let text) = try? JSONParser.parse(raw.text).node
        else { return "no reason given" }
        return String(text.unicodeScalars.prefix(300))
    }
}
