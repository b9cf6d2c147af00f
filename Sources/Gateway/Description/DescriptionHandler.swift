import HTTPServer
import Wire

/// Serves `/.openapi.json`, the machine-readable description of this gateway. The document is the same for all callers
/// and has no private data. Any loop.
struct DescriptionHandler {
    /// The document. It is maintained by hand; tests compare it with the routes and their answers.
    static let document: [UInt8] = PackageResources.openapi_json

    func serve(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        guard request.method == .get || request.method == .head else {
            throw RESTError(405, "The method must be GET or HEAD")
        }
        exchange.respond(status: 200, headers: Responder.plainHeaders, body: Self.document)
    }
}
