import Runtime

extension SinkMessage {
    init(_ delivery: FeedMachine.Delivery, of feed: FeedName) {
        let message = delivery.message
        let facts = message.facts
        self.init(
            id: message.position.id(in: feed.namespace), namespace: feed.namespace, feed: feed.name, key: message.key,
            path: facts.path, event: facts.event, seq: message.position.seq, time: facts.time,
            attempt: delivery.attempt, json: message.json(namespace: feed.namespace, attempt: delivery.attempt))
    }
}
