import KafkaClient
import Runtime
import Testing

/// Tests of the properties of librdkafka that may be set.
@Suite struct PropertyTests {
    @Test func allAllowedOnesAreKnown() {
        for name in KafkaProperty.allowed {
            // Some values are refused, but never because of the name.
            #expect(KafkaProperty.fault(name, "100").map { $0 == "can't have this value" } ?? true, "\(name)")
        }
        #expect(KafkaProperty.secret.isSubset(of: KafkaProperty.allowed))
        #expect(KafkaProperty.files.isSubset(of: KafkaProperty.allowed))
    }

    /// Checks that properties are refused that run programs, load libraries or break a guarantee.
    @Test(arguments: [
        "plugin.library.paths", "sasl.kerberos.kinit.cmd", "sasl.kerberos.keytab", "enable.idempotence", "acks",
        "request.required.acks", "max.in.flight", "partitioner", "message.timeout.ms", "bootstrap.servers",
        "metadata.broker.list", "test.mock.num.brokers", "enable.ssl.certificate.verification", "debug",
        "transactional.id", "nonsense", "", "sasl.oauthbearer.token.endpoint.url", "dr_msg_cb", "opaque",
        "ssl.engine.location", "retries",
    ])
    func othersAreNot(_ name: String) {
        #expect(KafkaProperty.fault(name, "1") == "can't be set here")
        var settings = KafkaSettings(brokers: ["localhost:1"])
        settings.properties[name] = Secret("1")
        #expect(throws: KafkaError.badProperty(name: name, "can't be set here")) {
            _ = try KafkaClient(settings)
        }
    }

    @Test func valuesAreCheckedAndNotPrinted() {
        #expect(KafkaProperty.fault("compression.type", "zstd") == nil)
        #expect(KafkaProperty.fault("security.protocol", "hunter2") == "can't have this value")
        #expect(KafkaProperty.fault("linger.ms", "-1") == "can't have this value")
        #expect(KafkaProperty.fault("sasl.password", "a\0b") == "can't contain U+0000")
        var settings = KafkaSettings(brokers: ["localhost:1"])
        settings.properties = [
            "security.protocol": Secret("sasl_plaintext"), "sasl.mechanisms": Secret("PLAIN"),
            "sasl.password": Secret("hunter2"),
        ]
        do {
            try KafkaClient(settings).stop()
        } catch { #expect(!"\(error)".contains("hunter2")) }
    }

    @Test func someBrokerIsNeeded() {
        #expect(throws: KafkaError.self) { _ = try KafkaClient(KafkaSettings(brokers: [])) }
    }
}
