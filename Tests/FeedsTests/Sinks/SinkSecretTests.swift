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
}
