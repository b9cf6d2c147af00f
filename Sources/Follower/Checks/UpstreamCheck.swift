import ClientCore
import Runtime
public import Tree

/// Checks of an upstream before a namespace follows it, by REST reads. Blocks its thread.
public struct UpstreamCheck {
    private let address: UpstreamAddress
    private let credentials: UpstreamCredentials
    private let tools: FollowTools
    private let requests: UpstreamRequests
    private var tokens: TokenSource

    /// The bytes of all answers.
    public private(set) var receivedBytes: Int64 = 0

    public init(_ address: UpstreamAddress, _ credentials: UpstreamCredentials, _ tools: FollowTools) {
        self.address = address
        self.credentials = credentials
        self.tools = tools
        requests = UpstreamRequests(tools.client)
        tokens = TokenSource(credentials, requests, readFile: tools.readFile)
    }

    /// Obtains a credential, and reads the keys of the root.
    ///
    /// - Returns: the number of keys of the root.
    public mutating func access() throws(FollowError) -> Int {
        var rest = UpstreamREST(address, requests)
        let keys = try rest.childKeys(.root, most: nil, try tokens.credential(isForced: false)).keys
        receivedBytes += rest.receivedBytes
        return keys.count
    }

    /// The upstream's rules document.
    public mutating func rules() throws(FollowError) -> [UInt8] {
        var rest = UpstreamREST(address, requests)
        let rules = try rest.rules(try tokens.credential(isForced: false))
        receivedBytes += rest.receivedBytes
        return rules
    }

    /// The approximate number of bytes of the upstream's tree as JSON.
    public mutating func estimate() throws(FollowError) -> Int64 {
        var walk = ShallowEstimate(UpstreamREST(address, requests))
        let bytes = try walk.bytes(try tokens.credential(isForced: false))
        receivedBytes += walk.rest.receivedBytes
        return bytes
    }

    /// Reads an upstream's tree. The upstream sends the parts that differ from `known`.
    ///
    /// - Parameters:
    ///   - path: the node to read.
    ///   - known: a tree that may be similar.
    ///   - check: throws if the command was interrupted.
    /// - Returns: `known` with the upstream's value at the path.
    public static func tree(
        of address: UpstreamAddress, _ credentials: UpstreamCredentials, _ tools: FollowTools, at path: Path,
        from known: Node, check: @escaping () throws -> Void
    ) throws -> Node {
        let session = UpstreamSession(
            address, TokenSource(credentials, UpstreamRequests(tools.client), readFile: tools.readFile),
            tools.transport, check: check)
        try session.open()
        return known.replacing(path, with: try session.listen(FollowPart(whole: path), from: known).value)
    }
}
