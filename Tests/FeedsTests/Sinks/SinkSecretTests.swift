import HTTPClient
import JSONText
import Testing

@testable import Feeds

/// Checks that a definition can use only the variables for its namespace.
@Suite struct SinkSecretTests {
    @Test(arguments: [
        ("PATHMIRROR_SINK_HOOK", "shop", true), ("PATHMIRROR_SINK_NSA", "shop", true),
        ("PATHMIRROR_SINK_NS_SHOP__HOOK", "shop", true), ("PATHMIRROR_SINK_NS_SHOP__HOOK_2", "Shop", true),
        ("PATHMIRROR_SINK_NS_SHOP__HOOK", "other", false), ("PATHMIRROR_SINK_NS_SHOP__HOOK", "sho", false),
        ("PATHMIRROR_SINK_NS_SHOP_EU__HOOK", "shop-eu", true), ("PATHMIRROR_SINK_NS_SHOP_EU__HOOK", "shop", false),
        ("PATHMIRROR_SINK_NS_SHOP__EU__HOOK", "shop", false), ("PATHMIRROR_SINK_NS_SHOP__EU__HOOK", "shop__eu", true),
        ("PATHMIRROR_SINK_NS_SHOP___HOOK", "shop", false), ("PATHMIRROR_SINK_NS_SHOP___HOOK", "shop_", true),
        ("PATHMIRROR_SINK_NS_SHOP_HOOK", "shop", false), ("PATHMIRROR_SINK_NS_SHOP__", "shop", false),
        ("PATHMIRROR_SINK_NS___HOOK", "", true), ("PATHMIRROR_SINK_NS_", "", false), ("PATH", "shop", false),
    ])
    func variables(_ variable: String, _ namespace: String, _ mayBeNamed: Bool) {
        #expect(SinkSecret.mayName(variable, in: namespace) == mayBeNamed)
    }

    /// Checks that the value of a variable is never sent by a sink of another namespace.
    @Test func sinksOfNamespaces() throws {
        let client = try HTTPClient()
        defer { client.stop() }
        let secret = "whsec_" + String(repeating: "A", count: 32)
        let maker = SinkMaker(
            client: client, exceptions: .init(), servers: .init(),
            environment: ["PATHMIRROR_SINK_ALL": secret, "PATHMIRROR_SINK_NS_SHOP__HOOK": secret])
        let definition = { (variable: String) in
            try FeedDefinition.read(
                Array(
                    #"{"path":"/a/{x}","webhook":{"url":"https://example.com/","secrets":["env:\#(variable)"]}}"#.utf8),
                name: "f")
        }
        for namespace in ["shop", "other"] {
            #expect(try maker.make(try definition("PATHMIRROR_SINK_ALL"), in: namespace) != nil)
        }
        let own = try definition("PATHMIRROR_SINK_NS_SHOP__HOOK")
        #expect(try maker.make(own, in: "shop") != nil)
        #expect {
            _ = try maker.make(own, in: "other")
        } throws: {
            "\($0)".contains("no environment variable PATHMIRROR_SINK_NS_SHOP__HOOK for this namespace")
        }
    }

    /// A secret that the gateway lacks is a warning: the gateway that delivers may have it.
    @Test(
        arguments: [
            (#""webhook":{"url":"https://example.com/","secrets":["env:PATHMIRROR_SINK_ALL"]}"#, []),
            (
                #""webhook":{"url":"https://example.com/","secrets":["env:PATHMIRROR_SINK_ALL","env:PATHMIRROR_SINK_B"],"headers":{"A":"env:PATHMIRROR_SINK_C"}}"#,
                ["webhook.secrets[1]: PATHMIRROR_SINK_B", "webhook.headers.A: PATHMIRROR_SINK_C"]
            ),
            (
                #""nats":{"url":"nats://n","subject":"s.{key}","token":"env:PATHMIRROR_SINK_NS_OTHER__T"}"#,
                ["nats.token: PATHMIRROR_SINK_NS_OTHER__T"]
            ),
            (
                #""nats":{"url":"nats://n","subject":"s.{key}","user":"u","password":"env:PATHMIRROR_SINK_EMPTY","ca":"env:PATHMIRROR_SINK_CA"}"#,
                ["nats.password: PATHMIRROR_SINK_EMPTY", "nats.ca: file PATHMIRROR_SINK_CA"]
            ),
            (
                #""kafka":{"brokers":"k:9092","topic":"t","properties":{"sasl.password":"env:PATHMIRROR_SINK_B","ssl.ca.location":"env:PATHMIRROR_SINK_CA"}}"#,
                [
                    "kafka.properties.sasl.password: PATHMIRROR_SINK_B",
                    "kafka.properties.ssl.ca.location: file PATHMIRROR_SINK_CA",
                ]
            ),
            (#""order":"key""#, []),
        ] as [(String, [String])])
    func whatAGatewayLacks(_ destination: String, _ lacks: [String]) throws {
        let client = try HTTPClient()
        defer { client.stop() }
        let maker = SinkMaker(
            client: client, exceptions: .init(), servers: .init(),
            environment: [
                "PATHMIRROR_SINK_ALL": "whsec_secret", "PATHMIRROR_SINK_EMPTY": "",
                "PATHMIRROR_SINK_CA": "/nowhere/ca.pem", "PATHMIRROR_SINK_NS_OTHER__T": "token",
            ])
        let definition = try FeedDefinition.read(Array("{\"path\":\"/a/{x}\",\(destination)}".utf8), name: "f")
        let wanted = lacks.map { lack in
            let isFile = lack.contains(": file ")
            let (member, name) = (lack.prefix { $0 != ":" }, lack.split(separator: " ").last ?? "")
            return isFile
                ? "\(member): this gateway finds no file of the name that the environment variable \(name) holds. The feed fails on every gateway without it."
                : "\(member): this gateway has no environment variable \(name) for this namespace, or it is empty. The feed is broken on every gateway without it."
        }
        #expect(maker.warnings(definition, in: "shop") == wanted)
    }
}
