import Follower
import HTTPClient
import TLS
import WebSocketClient

extension FollowTools {
    /// The maximum size of a file of credentials.
    private static let mostCredentialBytes = 64 * 1024

    /// - Parameter client: sends the requests to upstreams and token endpoints.
    init(_ client: HTTPClient, _ times: FollowTimes = FollowTimes()) throws(TLSError) {
        var settings = TransportSettings()
        settings.maxMessageBytes = 256 << 20
        self.init(transport: try WebSocketTransport(settings), client: client, times: times) { file in
            try Files.readRegular(file, maxBytes: Self.mostCredentialBytes)
        }
    }
}
