import HTTPServer
import Wire

/// Determines the namespace of a request: `ns`, the first label of the host, or the default.
enum NamespaceName {
    static func find(
        _ request: HTTPRequest, _ parameters: RESTParameters, _ settings: GatewaySettings
    ) throws(RESTError) -> String {
        try find(request, parameters.namespace, settings)
    }

    /// - Parameter named: the value of the request's `ns`.
    static func find(
        _ request: HTTPRequest, _ named: String?, _ settings: GatewaySettings
    ) throws(RESTError) -> String {
        if let name = named {
            guard isValid(name.utf8) else {
                throw RESTError(400, "ns must be a namespace: letters, digits, - and _, at most 64")
            }
            return name
        }
        guard settings.namespaceFromHost, let host = request.host, let label = label(host) else {
            return settings.defaultNamespace
        }
        return label
    }

    /// Returns the first of three or more labels, or the label before `localhost`. Returns nil for an address.
    private static func label(_ host: ArraySlice<UInt8>) -> String? {
        let name = host.prefix { $0 != UInt8(ascii: ":") }
        guard let last = name.last, !(0x30...0x39).contains(last), name.first != UInt8(ascii: "[") else { return nil }
        let labels = name.split(separator: UInt8(ascii: "."))
        let isLocal = labels.count == 2 && String(decoding: labels[1], as: UTF8.self).lowercased() == "localhost"
        guard labels.count > 2 || isLocal, isValid(labels[0]) else { return nil }
        return String(decoding: labels[0], as: UTF8.self)
    }

    static func isValid(_ name: some Collection<UInt8>) -> Bool {
        (1...64).contains(name.count)
            && name.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
                default: false
                }
            }
    }
}
