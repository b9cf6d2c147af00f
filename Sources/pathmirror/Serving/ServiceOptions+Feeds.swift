import Feeds
import HTTPClient
import Runtime

extension ServiceOptions {
    /// The settings of durable change feeds.
    static let feedSettings: [ServiceSetting] = [
        .text(
            "feeds-url", "URL",
            "the URL at which other gateways reach this one, for requests of feeds that it runs; default: the address of its connection "
                + "to the database, with its port, over HTTPS if it serves HTTPS"
        ) { $0.feeds.address = try gatewayURL($1) },
        .text(
            "webhook-allow", "LIST",
            "networks and hosts that webhooks may use although they are private, separated by commas; default: none, this machine"
                + " for dev"
        ) { options, text in
            options.webhookExceptions = try exceptions(text, of: "webhook-allow")
        },
        .text(
            "sink-allow", "LIST",
            "networks and hosts of NATS and Kafka servers to which feeds may deliver, separated by commas; default: none, this machine"
                + " for dev"
        ) { options, text in
            options.sinkServers = try exceptions(text, of: "sink-allow")
        },
    ]

    private static func exceptions(_ text: String, of option: String) throws -> AddressPolicy.Exceptions {
        do throws(AddressPolicy.Exceptions.UnknownPart) {
            return try AddressPolicy.Exceptions(text)
        } catch {
            throw UsageError("--\(option): \"\(error.text)\" is neither a network nor a host.")
        }
    }

    private static func gatewayURL(_ text: String) throws -> String {
        guard text.hasPrefix("http://") || text.hasPrefix("https://"), !text.dropFirst(8).isEmpty,
            !text.contains("?"), !text.contains("#"), !text.contains(" ")
        else { throw UsageError("--feeds-url must be a URL such as http://10.0.0.5:9000.") }
        return text.hasSuffix("/") ? String(text.dropLast()) : text
    }

    /// The client that forwards requests which the gateway that runs the feed answers at once.
    var promptForwarding: HTTPClient.Settings { forwarding(connections: 500) }

    /// The client that forwards pulls, which wait at the gateway that runs the feed.
    var waitingForwarding: HTTPClient.Settings { forwarding(connections: 2_000) }

    private func forwarding(connections: Int) -> HTTPClient.Settings {
        var settings = HTTPClient.Settings()
        settings.userAgent = "pathmirror/\(VersionCommand.version)"
        settings.maxConnections = connections
        return settings
    }

    /// The client that sends webhooks.
    var webhookClient: HTTPClient.Settings {
        var settings = HTTPClient.Settings()
        settings.userAgent = "pathmirror/\(VersionCommand.version)"
        settings.maxConnections = 1_000
        return settings
    }
}
