import HTTPServer
import LogStore
import Runtime
import Tree
import Wire

/// Serves `/.oauth2/token`: issues access tokens to service accounts for assertions that their keys have signed
/// (RFC 7523). One for each loop.
///
/// A request costs at most the reading of 8 kB and the check of one signature, some tens of microseconds.
final class TokenHandler {
    private let services: LoopServices
    private let callers: CallerResolver
    private let authenticator: Authenticator
    private let accounts: ServiceAccountList
    private let logger: Logger

    init(
        _ services: LoopServices, _ callers: CallerResolver, _ authenticator: Authenticator,
        _ accounts: ServiceAccountList, _ logger: Logger
    ) {
        self.services = services
        self.callers = callers
        self.authenticator = authenticator
        self.accounts = accounts
        self.logger = logger
    }

    private static let headers: HTTPHeaders = [
        "Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store",
    ]

    func serve(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        guard request.method == .post else {
            exchange.commonHeaders.add("Allow", "POST")
            throw RESTError(405, "The method must be POST")
        }
        do throws(TokenRefusal) {
            let issued = try issue(try TokenRequest(request.body), request)
            var writer = JSONWriter(form: .plain)
            writer.beginObject()
            writer.writeKey("access_token", isFirst: true)
            writer.writeString(issued.text)
            writer.writeKey("token_type", isFirst: false)
            writer.writeString("Bearer")
            writer.writeKey("expires_in", isFirst: false)
            writer.writeInteger(issued.lifeSeconds)
            writer.endObject()
            exchange.respond(status: 200, headers: Self.headers, body: writer.bytes)
        } catch {
            refuse(error, exchange)
        }
    }

    private func issue(
        _ asked: TokenRequest, _ request: HTTPRequest
    ) throws(TokenRefusal) -> ServiceAccountKeys.Issued {
        // The keys may have been removed meanwhile.
        guard accounts.isCurrent(), let keys = authenticator.secrets.serviceAccounts else { throw .unavailable }
        let address = ("address", "\(callers.clientAddress(of: request))")
        do throws(ServiceAccountKeys.Refusal) {
            let issued = try keys.issue(
                for: asked.assertion, now: Clock.unixMilliseconds, skew: authenticator.skewSeconds)
            logger.info("access token issued", [("account", issued.account), address])
            return issued
        } catch {
            switch error {
            case .notSigned(let reason):
                // Anyone can cause these lines.
                logger.debug("assertion refused", [address, ("reason", reason)])
                throw .notSigned
            case .invalid(let account, let reason):
                logger.info(
                    "assertion of a service account refused",
                    [("account", account), address, ("reason", "\(reason)")])
                throw .invalid("\(reason)")
            }
        }
    }

    private func refuse(_ refusal: TokenRefusal, _ exchange: HTTPExchange) {
        if refusal.error.status >= 500 {
            services.metrics.serverErrors.add()
        } else {
            services.metrics.clientErrors.add()
        }
        var writer = JSONWriter(form: .plain)
        writer.beginObject()
        writer.writeKey("error", isFirst: true)
        writer.writeString(refusal.code)
        writer.writeKey("error_description", isFirst: false)
        writer.writeString(refusal.error.message)
        writer.endObject()
        let headers = refusal.error.status == 503 ? Self.headers.adding("Retry-After", "1") : Self.headers
        exchange.respond(status: refusal.error.status, headers: headers, body: writer.bytes)
    }
}

extension TokenRefusal {
    /// The answer is the same whether the account exists or not.
    fileprivate static let notSigned = TokenRefusal(
        "invalid_grant", RESTError(400, "The assertion is not signed with a valid key of a service account"))
    fileprivate static let unavailable = TokenRefusal(
        "temporarily_unavailable", RESTError(503, "The service accounts can't be read at the moment. Try again later."))

    /// - Parameter reason: a sentence about the assertion's claims.
    fileprivate static func invalid(_ reason: String) -> TokenRefusal {
        TokenRefusal("invalid_grant", RESTError(400, "The assertion is signed but not valid: \(reason)"))
    }
}
