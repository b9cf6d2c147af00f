import ClientCore
import HTTPClient
import Runtime
import Tree
import Wire

/// Tries what only a real upstream can show: what an account may do, and how the server behaves. Sends read actions only, except for
/// `writes`.
public struct FollowProbe {
    /// One finding.
    public struct Fact: Sendable, Equatable {
        /// A short name for programs.
        public let name: String
        public let text: String
        /// Whether a follower can work with it; nil if the fact was not determined.
        public let isGood: Bool?
    }

    private let address: UpstreamAddress
    private let credentials: UpstreamCredentials
    private let tools: FollowTools
    private let check: () throws -> Void
    private var rest: UpstreamREST
    private var tokens: TokenSource
    /// The bytes received so far, by REST and by the realtime protocol.
    public private(set) var receivedBytes: Int64 = 0

    /// The key of the path that is listened at, and written if the administrator permits it.
    private let key: Key

    public init(
        _ address: UpstreamAddress, _ credentials: UpstreamCredentials, _ tools: FollowTools,
        check: @escaping () throws -> Void
    ) {
        self.address = address
        self.credentials = credentials
        self.tools = tools
        self.check = check
        let requests = UpstreamRequests(tools.client)
        rest = UpstreamREST(address, requests)
        tokens = TokenSource(credentials, requests, readFile: tools.readFile)
        key = Key("pathmirror-probe-\(UInt64.random(in: 0...UInt64.max))")
    }

    /// Determines the facts in order, and passes each to `report`.
    ///
    /// - Parameters:
    ///   - writes: whether the probe may write at a new key of the root, which it removes again.
    ///   - untilExpiry: whether to wait until the upstream ends a connection whose credential has expired.
    public mutating func run(writes: Bool, untilExpiry: Bool, _ report: (Fact) throws -> Void) throws {
        let credential = try tokens.credential(isForced: false)
        let access = try access(credential)
        try report(access)
        try report(access.isGood == true ? rules(credential) : Self.notTried("rules", "the account may not read"))
        try report(try size(credential))
        try report(try hashes(credential))
        try report(writes ? try arrival(credential) : Self.notTried("one write", "add --write to try it"))
        try report(
            untilExpiry ? try expiry() : Self.notTried("expiry", "add --until-expiry; it takes the life of the token"))
        receivedBytes += rest.receivedBytes
    }

    private static func notTried(_ name: String, _ remedy: String) -> Fact {
        Fact(name: name, text: "not tried: \(remedy)", isGood: nil)
    }

    private mutating func session() throws -> UpstreamSession {
        let session = UpstreamSession(address, tokens, tools.transport, check: check)
        try session.open()
        return session
    }

    private mutating func access(_ credential: UpstreamCredential?) throws -> Fact {
        let name = "access"
        do {
            _ = try rest.childKeys(.root, most: 1, credential)
            let session = try session()
            defer { receivedBytes += session.receivedBytes }
            _ = try session.listen(FollowPart(whole: Path([key])), from: .null, milliseconds: 60_000)
            return Fact(name: name, text: "the account may read the root by REST, and may listen", isGood: true)
        } catch FollowError.refused(_, let request, let reason) {
            let remedy = credentials == .none ? ". No --credentials were given" : ""
            return Fact(
                name: name, text: "the account may not read: \(request) was refused (\(reason))\(remedy)", isGood: false
            )
        } catch FollowError.listenRefused(let part, let reason) {
            return Fact(
                name: name, text: "the account may not listen: a listen at \(part) was refused (\(reason))",
                isGood: false)
        }
    }

    private mutating func rules(_ credential: UpstreamCredential?) -> Fact {
        do {
            let size = try rest.rules(credential).count
            return Fact(name: "rules", text: "the account may read the rules (\(size) bytes)", isGood: true)
        } catch {
            return Fact(
                name: "rules", text: "the account can't read the rules, so --keep-rules is needed: \(error)",
                isGood: false)
        }
    }

    private mutating func size(_ credential: UpstreamCredential?) throws -> Fact {
        var walk = ShallowEstimate(rest)
        let bytes = try walk.bytes(credential)
        rest = walk.rest
        return Fact(
            name: "size",
            text:
                "about \(bytes) bytes, which the first load receives once; 'follow status' then shows whether one listen "
                + "was enough", isGood: true)
    }

    /// Listens twice at a value of some kilobytes. The second time, an upstream that compares hashes sends nothing.
    private mutating func hashes(_ credential: UpstreamCredential?) throws -> Fact {
        guard let path = try sample(.root, credential) else {
            return Self.notTried("compound hashes", "no value of 2 to 256 kB was found")
        }
        let part = FollowPart(whole: path)
        let first = try session()
        let answer = try first.listen(part, from: .null, milliseconds: 60_000)
        receivedBytes += first.receivedBytes
        // One part of the tree is changed, so that the compound hash decides, and not the hash of the whole value.
        guard let changed = Self.changed(answer.value) else {
            return Self.notTried("compound hashes", "the value at \(path) has no leaf to compare")
        }
        let second = try session()
        let again = try second.listen(part, from: Node.null.replacing(path, with: changed), milliseconds: 60_000)
        receivedBytes += second.receivedBytes
        let isGood = again.value.hash == answer.value.hash && again.receivedBytes < answer.receivedBytes / 2
        return Fact(
            name: "compound hashes",
            text:
                "a second listen with one changed leaf received \(again.receivedBytes) of \(answer.receivedBytes) bytes"
                + (isGood ? "" : ": reconnects load everything again"), isGood: isGood)
    }

    /// The number of bytes after which the probe looks for no other value.
    private static let mostSampleBytes: Int64 = 20 << 20

    private mutating func sample(_ path: Path, _ credential: UpstreamCredential?) throws -> Path? {
        guard path.depth < 6 else { return nil }
        for key in try rest.childKeys(path, most: 20, credential).keys where rest.receivedBytes < Self.mostSampleBytes {
            try check()
            let child = path.appending(key)
            if let size = try rest.size(child, most: 256 << 10, credential) {
                if size > 2_048 { return child }
            } else if let found = try sample(child, credential) {
                return found
            }
        }
        return nil
    }

    /// Returns the value without its last leaf.
    private static func changed(_ node: Node) -> Node? {
        var path = Path()
        var next = node
        while case .branch(let branch) = next, let last = branch.children.last {
            path.append(last.key)
            next = last.node
        }
        return path.isRoot ? nil : node.replacing(path, with: .string("pathmirror-probe"))
    }

    /// Writes two paths by one update, and counts the messages that arrive.
    private mutating func arrival(_ credential: UpstreamCredential?) throws -> Fact {
        let session = try session()
        defer { receivedBytes += session.receivedBytes }
        _ = try session.listen(FollowPart(whole: Path([key])), from: .null, milliseconds: 60_000)
        try rest.update(Path([key]), #"{"a/x": 1, "b/y": 2}"#, credential)
        var data = 0
        var merges = 0
        let deadline = Clock.monotonicMilliseconds + 5_000
        while Clock.monotonicMilliseconds < deadline {
            for report in try session.pump(milliseconds: 500) {
                if case .changed(.put, _, _) = report { data += 1 }
                if case .changed(.patch, _, _) = report { merges += 1 }
            }
        }
        try rest.update(Path([key]), "null", credential)
        return Fact(
            name: "one write",
            text: "an update of two paths arrived as \(merges) merges and \(data) replacements",
            isGood: merges == 1 && data == 0)
    }

    /// Waits until the upstream ends a connection whose credential was not renewed.
    private mutating func expiry() throws -> Fact {
        let session = UpstreamSession(address, tokens, tools.transport, renews: false, check: check)
        try session.open()
        guard let expires = session.expires else {
            return Self.notTried("expiry", "the credential does not expire")
        }
        while !session.isClosed { _ = try session.pump(milliseconds: 1_000) }
        let after = Clock.unixMilliseconds / 1_000 - expires
        receivedBytes += session.receivedBytes
        return Fact(name: "expiry", text: "the upstream ended the connection \(after) s after the expiry", isGood: true)
    }
}
