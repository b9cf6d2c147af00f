import KafkaClient
import Runtime
import TestSupport
import Testing

extension KafkaClient {
    /// Creates a client of a test's brokers.
    static func to(_ kafka: TestKafka, _ change: (inout KafkaSettings) -> Void = { _ in }) throws -> KafkaClient {
        var settings = KafkaSettings(brokers: kafka.brokers)
        change(&settings)
        return try KafkaClient(settings)
    }

    /// Publishes and waits. Returns nil if there is no outcome in time.
    func result(_ record: KafkaRecord) -> Result<KafkaReceipt, KafkaError>? {
        let outcome = Condition<Result<KafkaReceipt, KafkaError>?>(nil)
        publish(record) { result in outcome.broadcast { $0 = result } }
        return outcome.wait(milliseconds: 120_000) { $0 }
    }

    func failure(_ record: KafkaRecord) -> KafkaError? {
        if case .failure(let error) = result(record) { error } else { nil }
    }

    func receipt(_ record: KafkaRecord) -> KafkaReceipt? { try? result(record)?.get() }
}

extension KafkaRecord {
    static func order(_ number: Int, key: String = "o1") -> KafkaRecord {
        KafkaRecord(topic: "orders", key: Array(key.utf8), value: Array("\(number)".utf8))
    }
}

extension KafkaError {
    var code: Int? {
        if case .failed(let code, _) = self { code.number } else { nil }
    }
}

/// Tests of records and topics on librdkafka's mock brokers.
@Suite struct PublishingTests {
    @Test func recordsAreStored() throws {
        let kafka = try TestKafka()
        kafka.addTopic("orders")
        let client = try KafkaClient.to(kafka)
        var record = KafkaRecord.order(1)
        record.headers = [.init("id", "default:1:0"), .init("event", "créé"), .init("empty", "")]
        #expect(client.receipt(record) == KafkaReceipt(partition: 0, offset: 0))
        let stored = try #require(try kafka.records(of: "orders").first)
        #expect(stored.key == "o1")
        #expect(stored.value == "1")
        #expect(stored.headers == ["id": "default:1:0", "event": "créé", "empty": ""])
    }

    @Test func manyAtOnceAreStoredInOrder() throws {
        let kafka = try TestKafka(brokers: 3)
        kafka.addTopic("orders", partitions: 4)
        let client = try KafkaClient.to(kafka)
        let done = Condition(0)
        for number in 0..<1_000 {
            client.publish(.order(number, key: "o\(number % 10)")) { result in
                if case .success = result { done.broadcast { $0 += 1 } }
            }
        }
        #expect(done.wait(milliseconds: 120_000) { $0 == 1_000 ? true : nil } == true)
        let records = try kafka.records(of: "orders", partitions: 4)
        #expect(records.count == 1_000)
        for key in 0..<10 {
            let ofKey = records.filter { $0.key == "o\(key)" }
            #expect(Set(ofKey.map(\.partition)).count == 1)
            #expect(ofKey.map(\.value) == (0..<100).map { String($0 * 10 + key) })
        }
        #expect(Set(records.map(\.partition)).count > 1)
    }

    /// Checks that records without a key go to one partition, which keeps all of them in order.
    @Test func emptyKeysGoToOnePartition() throws {
        let kafka = try TestKafka()
        kafka.addTopic("orders", partitions: 8)
        let client = try KafkaClient.to(kafka)
        let partitions = (0..<30).compactMap { client.receipt(.order($0, key: ""))?.partition }
        #expect(partitions.count == 30)
        #expect(Set(partitions).count == 1)
    }

    /// Checks that the library retries after transient errors, and that the brokers store each record once.
    @Test func passingErrorsAreOvercome() throws {
        let kafka = try TestKafka()
        kafka.addTopic("orders")
        // REQUEST_TIMED_OUT, NOT_LEADER_FOR_PARTITION, NOT_ENOUGH_REPLICAS
        kafka.refuse([7, 6, 19])
        let client = try KafkaClient.to(kafka) { $0.timeoutMilliseconds = 60_000 }
        #expect(client.receipt(.order(1)) != nil)
        #expect(client.receipt(.order(2)) != nil)
        #expect(try kafka.records(of: "orders").map(\.value) == ["1", "2"])
    }

    @Test(arguments: [(10, true), (29, false), (87, true), (44, true)])
    func errorsAreDistinguished(number: Int, isPermanent: Bool) throws {
        let kafka = try TestKafka()
        kafka.addTopic("orders")
        let client = try KafkaClient.to(kafka)
        kafka.refuse([Int32(number)])
        let failure = try #require(client.failure(.order(1)))
        #expect(failure.code == number, "\(failure)")
        #expect(failure.isPermanent == isPermanent, "\(failure)")
        // The library remembers for a while that it may not write to the topic.
        #expect(eventually(seconds: 60) { client.receipt(.order(2)) != nil }, "others go on")
    }

    @Test func aRecordThatIsTooLargeIsRefused() throws {
        let kafka = try TestKafka()
        kafka.addTopic("orders")
        let client = try KafkaClient.to(kafka) { $0.properties["message.max.bytes"] = Secret("2000") }
        let large = KafkaRecord(topic: "orders", key: [], value: [UInt8](repeating: 1, count: 4_000))
        #expect(client.failure(large)?.isPermanent == true)
        #expect(client.receipt(.order(1)) != nil)
        #expect(try kafka.records(of: "orders").map(\.value) == ["1"])
    }

    @Test func brokersAreDownAndComeBack() throws {
        let kafka = try TestKafka()
        kafka.addTopic("orders")
        let client = try KafkaClient.to(kafka) { settings in
            settings.timeoutMilliseconds = 1_500
            settings.properties["reconnect.backoff.max.ms"] = Secret("200")
        }
        #expect(client.receipt(.order(1)) != nil)
        kafka.setDown()
        let failure = try #require(client.failure(.order(2)))
        #expect(!failure.isPermanent)
        #expect(failure.code == -192, "\(failure)")
        kafka.setUp()
        let isBack = eventually(seconds: 60) { client.receipt(.order(3)) != nil }
        #expect(isBack)
        let values = try kafka.records(of: "orders").map(\.value)
        #expect(values.first == "1" && values.last == "3")
    }

    @Test func slowBrokersAreGivenUp() throws {
        let kafka = try TestKafka()
        kafka.addTopic("orders")
        let client = try KafkaClient.to(kafka) { $0.timeoutMilliseconds = 1_000 }
        // On a busy machine, connecting alone may take longer than this.
        #expect(eventually { client.receipt(.order(1)) != nil })
        kafka.setDelay(milliseconds: 30_000)
        let failure = try #require(client.failure(.order(2)))
        #expect(failure.code == -192 && !failure.isPermanent, "\(failure)")
    }

    @Test func stoppingFailsMessagesInFlight() throws {
        let kafka = try TestKafka()
        kafka.addTopic("orders")
        let client = try KafkaClient.to(kafka) { settings in
            settings.timeoutMilliseconds = 300_000
            settings.flushMilliseconds = 10
        }
        #expect(client.receipt(.order(1)) != nil)
        kafka.setDown()
        let failures = Condition<[KafkaError]>([])
        for number in 2...4 {
            client.publish(.order(number)) { result in
                if case .failure(let error) = result { failures.broadcast { $0.append(error) } }
            }
        }
        client.stop()
        #expect(failures.wait(milliseconds: 60_000) { $0.count == 3 ? $0 : nil } == [.stopped, .stopped, .stopped])
        #expect(client.failure(.order(5)) == .stopped)
    }

    @Test func stoppingWaitsForWhatIsNearlyThere() throws {
        let kafka = try TestKafka()
        kafka.addTopic("orders")
        let client = try KafkaClient.to(kafka) { settings in
            settings.flushMilliseconds = 60_000
            settings.properties["linger.ms"] = Secret("300")
        }
        let done = Condition(0)
        for number in 1...50 {
            client.publish(.order(number)) { result in
                if case .success = result { done.broadcast { $0 += 1 } }
            }
        }
        client.stop()
        #expect(done.withLock { $0 } == 50)
    }

    @Test func recordsAreBounded() throws {
        let kafka = try TestKafka()
        kafka.setDown()
        let client = try KafkaClient.to(kafka) { settings in
            settings.maxRecords = 3
            settings.timeoutMilliseconds = 300_000
            settings.flushMilliseconds = 0
        }
        for number in 1...3 { client.publish(.order(number)) { _ in } }
        #expect(client.failure(.order(4)) == .tooManyRecords)
    }

    /// Checks that a producer whose sequence the brokers have lost is replaced by another one.
    @Test func aFailedProducerIsReplaced() throws {
        let kafka = try TestKafka()
        kafka.addTopic("orders")
        let client = try KafkaClient.to(kafka)
        #expect(client.receipt(.order(1)) != nil)
        // OUT_OF_ORDER_SEQUENCE_NUMBER
        kafka.refuse([45])
        let failure = try #require(client.failure(.order(2)))
        #expect(!failure.isPermanent, "\(failure)")
        #expect(eventually(seconds: 60) { client.receipt(.order(3)) != nil })
        let values = try kafka.records(of: "orders").map(\.value)
        #expect(values.first == "1" && values.last == "3")
    }
}
