import Feeds
import JSONText
import Tree

extension FuzzTarget {
    /// Files of feed definitions, including webhooks and sinks. Reading them needs no database and no network.
    static let feed = FuzzTarget(
        name: "feed",
        corpus: [
            #"{"name":"orders","path":"/orders/{order_id}"}"#,
            #"[{"name":"a","namespace":"n","path":"/a/{x}/b/{y}","operations":["set","push"],"events":"created","filter":"newData.child('total').val() > 100 && $x != 'é'","include":["value","old","record"],"record_depth":2,"start":{"seq":42},"order":"namespace"}]"#,
            #"{"feeds":[{"name":"u-1","path":"/u","include":[],"start":{"time":"2026-11-22T10:00:00Z"},"max_attempts":1000,"backoff":{"first":"0s","max":"1d"},"ack_deadline":"10ms","on_dead":"stop","retention":"12h","when_retention_ends":"drop"}]}"#,
            #"{"name":"w","path":"/{k}","start":"snapshot","webhook":{"url":"https://example.com/hooks?a=1","secrets":["env:PATHMIRROR_SINK_A","\#(secret)"],"headers":{"X-A":"env:PATHMIRROR_SINK_B","Authorization":"Bearer hushed"},"batch":10,"concurrency":2,"timeout":"5s","connect_timeout":"100ms","format":"cloudevents"}}"#,
            #"{"name":"n","path":"/{k}","nats":{"url":["nats://a:4222","tls://b:4222"],"subject":"orders.{key}.{event}","stream":"S","user":"u","password":"hushed","ca":"env:PATHMIRROR_SINK_CA","batch":5}}"#,
            #"{"name":"n","path":"/{k}/x","nats":{"url":"nats://a","subject":"a","token":"hushed","concurrency":64,"timeout":"5m"}}"#,
            #"{"name":"k","path":"/{k}","kafka":{"brokers":["a:1,b:2","c:3"],"topic":"t.a-b_c","properties":{"security.protocol":"sasl_ssl","sasl.username":"u","sasl.password":"hushed","linger.ms":5}}}"#,
            #"{"name":"k","path":"/{k}","kafka":{"brokers":"c:3","topic":"t","properties":{"sasl.password":"hushed"}}}"#,
        ],
        tokens: [
            "{", "}", "[", "]", ":", ",", "\"", "\\", "\\u0000", "\\u", "\\ud83d\\ude00", "\"name\":\"f\",",
            "\"path\":\"/a/{k}\"",
            "{k}", "{é}", "/", ".", "*", ">", "{key}", "\"filter\":\"true\"", "\"start\":", "\"snapshot\"",
            "{\"seq\":9223372036854775807}", "\"record_depth\":", "\"retention\":\"999999d\"", "\"0s\"",
            "\"webhook\":{",
            "\"nats\":{", "\"kafka\":{", "\"secrets\":[", "\"headers\":{", "\"properties\":{", "\"url\":",
            "\"brokers\":",
            "a:1,", "nats://", "https://", "@", "\"topic\":", "\"subject\":", "env:", "env:PATHMIRROR_SINK_", "(set)",
            "whsec_", "-1", "1e3", "1.0", "null", "true", "9223372036854775808", "\n", "é", "e\u{301}",
        ]
    ) { input, summary in
        let definitions: [FeedDefinition]
        do throws(DefinitionError) {
            definitions = try FeedDefinition.read(input, source: "f")
        } catch {
            return definitionRefusal(error, of: input, &summary)
        }
        guard RawJSON(input).isJSON else { return "an input that is not JSON is read" }
        if definitions.isEmpty { return "a file without feeds is read" }
        for definition in definitions {
            summary.noteSize(definition.json(as: .stored).count)
            summary.note(definition.pattern.depth)
            if let wrong = roundTrip(definition) { return wrong }
        }
        return nil
    }.measuring { _ = try? FeedDefinition.read($0, source: "f") }

    private static let secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"

    /// Checks that the stored form reads back as the same feed, since otherwise no gateway could run the feed, and that
    /// the displayed form contains no secrets.
    private static func roundTrip(_ definition: FeedDefinition) -> String? {
        let kept = definition.json(as: .stored)
        var wanted = definition
        wanted.namespace = nil
        do throws(DefinitionError) {
            let again = try FeedDefinition.read(stored: kept, name: definition.name)
            guard again == wanted else { return "the kept form is another feed: \(text(kept))" }
            guard again.json(as: .stored) == kept else { return "the kept form is not stable" }
            guard again.numbersMessagesLike(definition) else { return "the kept form numbers other messages" }
        } catch {
            return "the kept form is refused: \(error.description): \(text(kept))"
        }
        let shown = definition.json(as: .shown)
        guard RawJSON(shown).isJSON else { return "the shown definition is not JSON" }
        for secret in ["hushed", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"] {
            if isSecret(secret, in: definition), text(shown).contains(secret) {
                return "a secret is shown: \(text(shown))"
            }
        }
        guard definition.pattern.depth >= definition.recordDepth else { return "a record below the pattern" }
        guard definition.firstBackoffMilliseconds <= definition.maxBackoffMilliseconds else { return "backoff shrinks" }
        return nil
    }

    /// Whether the word occurs only in the secrets of the definition.
    private static func isSecret(_ word: String, in definition: FeedDefinition) -> Bool {
        var others = definition
        others.destination = nil
        if text(others.json(as: .stored)).contains(word) { return false }
        switch definition.destination {
        case nil: return false
        case .webhook(let webhook): return !([webhook.url] + webhook.headers.map(\.name)).contains { $0.contains(word) }
        case .nats(let nats):
            if case .password(let user, _) = nats.credentials, user.contains(word) { return false }
            let open = nats.servers + [nats.stream ?? "", nats.subject.template]
            return !open.contains { $0.contains(word) }
        case .kafka(let kafka):
            // Other properties are displayed.
            guard kafka.properties.keys.allSatisfy({ $0 == "sasl.password" }) else { return false }
            return !(kafka.brokers + [kafka.topic]).contains { $0.contains(word) }
        }
    }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
