import HTTPServer
import Wire

/// Serves `/.openapi.json`: what this gateway serves, for programs. The same to everybody: there is nothing of anybody's in it.
/// Any loop.
struct DescriptionHandler {
    /// The document. It is written by hand, and tests hold it to the routes and to what they answer.
    static let document: [UInt8] = PackageResources.openapi_json

    func serve(_ request: HTTPRequest, _ exchange: HTTPExchange) throws(RESTError) {
        guard request.method == .get || request.method == .head else {
            throw RESTError(405, "The method must be GET or HEAD")
        }
        exchange.respond(status: 200, headers: Responder.plainHeaders, body: Self.document)
    }
}
