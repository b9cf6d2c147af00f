import Glibc
import HTTPClient
import Runtime

/// Asks a gateway whether it is ready, and compares its clock.
struct GatewayVisit {
    let url: String

    /// - Parameter client: may be used by any thread. This one waits for the answer.
    func findings(_ client: HTTPClient) -> [Finding] {
        var request = HTTPClientRequest(url.hasSuffix("/") ? "\(url).health/ready" : "\(url)/.health/ready")
        request.allowsPlainHTTP = true
        request.timeoutMilliseconds = 10_000
        request.maxRedirects = 0
        let answer = Condition<Result<ClientResponse, HTTPClientError>?>(nil)
        let before = Clock.unixMilliseconds
        client.send(request) { result in answer.signal { $0 = result } }
        let result = answer.wait { $0 }
        let middle = (before + Clock.unixMilliseconds) / 2
        return Self.findings(url, result ?? .failure(.timedOut), machineMilliseconds: middle)
    }

    /// - Parameter machineMilliseconds: this machine's clock halfway between request and response.
    static func findings(
        _ url: String, _ answer: Result<ClientResponse, HTTPClientError>, machineMilliseconds: Milliseconds
    ) -> [Finding] {
        switch answer {
        case .failure(let error):
            return [.problem("gateway.ready", "\(url): \(error)", fix: "check that it runs, and its log")]
        case .success(let response):
            var found: [Finding] = []
            let body = String(decoding: response.body.prefix(300).prefix { $0 != 0x0A }, as: UTF8.self)
            switch response.status {
            case 200 where body.hasPrefix(#"{"status":"ready""#): found.append(.ok("gateway.ready", "\(url) is ready"))
            case 503: found.append(.problem("gateway.ready", "\(url) is not ready: \(body)", fix: "check its log"))
            default:
                found.append(
                    .problem(
                        "gateway.ready", "\(url) answers with \(response.status), which no gateway does",
                        fix: "give the gateway's own address, without a path"))
            }
            if let time = response.header("date").flatMap(seconds) {
                found.append(clock(url, aheadSeconds: time - machineMilliseconds / 1_000))
            }
            return found
        }
    }

    /// Compares the clocks. The header has whole seconds, and the answer took a while.
    private static func clock(_ url: String, aheadSeconds: Int64) -> Finding {
        let text =
            "the clock of \(url) is \(abs(aheadSeconds)) s \(aheadSeconds < 0 ? "behind" : "ahead of") this machine's"
        return abs(aheadSeconds) > 2
            ? .warning(
                "clock.gateway", text,
                fix: "synchronize both with a time server: gateways check tokens by their own clock")
            : .ok("clock.gateway", text)
    }

    /// Parses an HTTP date, `Sun, 06 Nov 1994 08:49:37 GMT`, into seconds since 1970.
    static func seconds(_ text: String) -> Int64? {
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let month = months.firstIndex(of: String(words[2])) else {
            return nil
        }
        let numbers = ([words[1], words[3]] + words[4].split(separator: ":")).compactMap { Int32($0) }
        guard numbers.count == 5 else { return nil }
        var parts = tm()
        parts.tm_mday = numbers[0]
        parts.tm_mon = Int32(month)
        parts.tm_year = numbers[1] - 1_900
        parts.tm_hour = numbers[2]
        parts.tm_min = numbers[3]
        parts.tm_sec = numbers[4]
        return Int64(timegm(&parts))
    }
}
