import Testing
import Wire

/// Checks the parameters that clients send when they connect (rtdb-protocol 1.1).
@Suite struct ConnectionParametersTests {
    private func read(_ text: String) -> RealtimeParameters { RealtimeParameters(Array(text.utf8)[...]) }

    @Test func whatAClientSends() {
        #expect(RealtimeParameters(namespace: "demo").text == "ns=demo&v=5")
        #expect(RealtimeParameters(namespace: nil).text == "v=5")
        #expect(RealtimeParameters(namespace: "a b&c", lastSession: "x=y").text == "ls=x%3Dy&ns=a%20b%26c&v=5")
    }

    @Test(arguments: [
        "v=5&ns=demo", "ns=demo&v=5&ls=3377e5c0f15260deac0c7e75fb47196d", "v=5", "", "v=5&p=1:1:web:1&ns=demo",
        "v=5&s=abc&ns=x", "a=%&b", "ns=é",
    ]) func whatWasReadIsWrittenAlike(text: String) {
        let parameters = read(text)
        #expect(read(parameters.text) == parameters)
    }

    /// Checks recorded parameters of SDKs.
    @Test func recorded() {
        let web = read("v=5&p=1:1:web:1&ns=demo")
        #expect(web.version == "5" && web.namespace == "demo" && web["p"] == "1:1:web:1" && web.lastSession == nil)
        let java = read("ns=demo&v=5&ls=abc")
        #expect(java.lastSession == "abc" && java.pollingSession == nil)
        let upgrade = read("v=5&s=poll1&ls=&ns=demo")
        #expect(upgrade.pollingSession == "poll1" && upgrade.lastSession == nil)
        #expect(read("v=5&v=6").version == "6")
    }
}
