import Rules
import Tree
import Wire

@testable import Gateway
@testable import HTTPServer

/// REST calls on a loop, in the form in which handlers receive them.
struct TestCall {
    let request: HTTPRequest
    let identity: Identity

    init(
        _ method: String, _ target: String, _ headers: [(String, String)] = [], body: String = "",
        as identity: Identity = .anonymous(isLoopback: true)
    ) throws {
        request = try TestRequest.make(method, target, headers, body: body)
        self.identity = identity
    }

    /// Runs `body` with the call on a new loop.
    func with<Value>(_ body: (Call, LoopServices) throws -> Value) throws -> Value {
        var value: Value?
        try withLoop { test in
            let client = try test.client()
            let exchange = try test.exchange(client).exchange
            value = try test.on { try body(try call(exchange.content), test.services()) }
        }
        guard let value else { throw TestLoop.Failure(what: "no value") }
        return value
    }

    /// The call on an exchange of the loop.
    func call(_ exchange: HTTPExchange) throws -> Call {
        let parameters = try RESTParameters(request.query)
        return Call(
            request: request, exchange: exchange, method: try Call.Method(request, parameters),
            path: try RequestPath.parse(request.path), parameters: parameters, identity: identity,
            namespaceName: "db", address: request.remoteIP)
    }
}

extension HTTPHeaders {
    /// The header lines as sent.
    var lines: [String] {
        String(decoding: encoded, as: UTF8.self).split(separator: "\r\n").map(String.init)
    }

    /// Returns the value of a header, or nil if there is none.
    func value(_ name: String) -> String? {
        lines.first { $0.lowercased().hasPrefix("\(name.lowercased()): ") }.map { String($0.dropFirst(name.count + 2)) }
    }
}
