import LogStore
import TestSupport

@testable import Feeds

/// Consumers' actions, and the checks of their results.
extension MachineWorld {
    func pull(_ most: Int, by consumer: String, through connection: Connection? = nil) {
        let got = machine.pull(most, by: consumer, connection?.opening, now: moment)
        let door = connection.map { " through \($0.number)" } ?? ""
        note("pull \(most) by \(consumer)\(door): \(got.map { "\($0.message.position.id(in: ""))#\($0.attempt)" })")
        check(got.count <= most, "more messages than were asked for")
        for delivery in got {
            receive(delivery, consumer, connection)
            connection?.add(delivery)
        }
    }

    private func receive(_ delivery: FeedMachine.Delivery, _ consumer: String, _ connection: Connection?) {
        let position = delivery.message.position
        let key = key(position)
        let name = position.id(in: "")
        let isRetry = failedMessage(position)?.state == .retry
        check(messages[position] != nil, "\(name) never was in the log")
        check(delivery.message.key == messages[position]?.key, "\(name) has another key")
        // A message that an administrator dropped while it was being retried may be delivered once more.
        let isDone = acknowledged.contains(position) && !dropped.contains(position)
        check(!isDone, "\(name) was acknowledged, and is delivered again")
        check(
            (1...settings.maxAttempts).contains(delivery.attempt),
            "\(name) is delivered for the \(delivery.attempt)th time of \(settings.maxAttempts)")
        check(isRetry || position.seq <= row.progress.handedTo, "\(name) is handed out before that is written down")
        // An outstanding message that was not read again does not block other messages yet.
        let unread = machine.adoptedPositions ?? []
        for (other, holding) in held where self.key(other) == key && !unread.contains(other) {
            check(
                other != position && holding.consumer == consumer,
                "\(name) goes to \(consumer), and \(holding.consumer) holds \(other.id(in: "")) of its key")
        }
        for (other, _) in messages where !isRetry && other < position && self.key(other) == key {
            if acknowledged.contains(other) || held[other] != nil { continue }
            // A dead message that is not durable may be lost. The message is then delivered again.
            let stored = row.failedMessages[other]?.state
            // A message that an administrator has retried has lost its position if its key continued.
            if !settings.stopsKeys, stored == .dead || stored == .retry { continue }
            let state = failedMessage(other)?.state
            check(
                false,
                "\(name) is delivered before \(other.id(in: "")) of its key, which is \(state?.rawValue ?? "new")")
        }
        // A retry waits while an earlier message of its key is dead.
        for (other, _) in messages
        where isRetry && settings.stopsKeys && other < position && self.key(other) == key && held[other] == nil {
            check(
                failedMessage(other)?.state != .dead,
                "\(name) is delivered once more, and \(other.id(in: "")) of its key is dead")
        }
        // Messages that wait in the machine are delivered in order, whether new or retried.
        for slot in machine.slots.values
        where settings.stopsKeys && slot.position < position && self.key(slot.position) == key && !slot.isHeld {
            check(false, "\(name) is delivered, and \(slot.position.id(in: "")) of its key waits")
        }
        deliveries += 1
        lastDelivery[position] = deliveries
        held[position] = Held(
            consumer: consumer, deadline: now + settings.ackDeadlineMilliseconds, number: deliveries,
            connection: connection?.number)
    }

    /// Returns a message, together with the later messages of its key that the same consumer holds.
    func goesBack(_ position: FeedPosition) {
        guard let mine = held.removeValue(forKey: position) else { return }
        let key = key(position)
        held = held.filter { other, holding in
            !(holding.consumer == mine.consumer && holding.number > mine.number && self.key(other) == key)
        }
    }

    func anyPosition() -> FeedPosition? {
        let candidates = random.oneIn(8) ? Array(messages.keys) : Array(held.keys)
        return candidates.sorted().isEmpty ? nil : random.pick(candidates.sorted())
    }

    func acknowledge() {
        guard let position = anyPosition() else { return }
        let consumer = holder(position)
        let wasRetry = failedMessage(position)?.state == .retry
        let wasAdopted = machine.isAdopted(position)
        checkTrust(position)
        let result = machine.acknowledge(position, by: consumer)
        note("ack \(position.id(in: "")) by \(consumer ?? "anybody"): \(result)")
        expectResult(result, position, consumer)
        if result == .done {
            held[position] = nil
            acknowledged.insert(position)
            if !wasRetry { checkTurn(position) }
        } else if wasAdopted {
            held[position] = nil
        }
    }

    /// Checks that the outcome of a delivery counts only if all earlier messages of its key were delivered before it
    /// and are done.
    private func checkTrust(_ position: FeedPosition) {
        guard let slot = machine.slots[position], machine.isOvertaking(slot), let mine = held[position] else { return }
        let key = key(position)
        let isInOrder = messages.keys.allSatisfy { other in
            other >= position || self.key(other) != key
                || acknowledged.contains(other) && lastDelivery[other, default: 0] < mine.number
        }
        check(!isInOrder, "\(position.id(in: "")) was delivered in order, and its outcome does not count")
    }

    /// Checks that a message is not done before an earlier deliverable one of its key.
    private func checkTurn(_ position: FeedPosition) {
        for other in messages.keys where other < position && key(other) == key(position) {
            if acknowledged.contains(other) || held[other] != nil || machine.isAdopted(other) { continue }
            let state = failedMessage(other)?.state
            check(
                state != nil && state != .failing,
                "\(position.id(in: "")) is done, and \(other.id(in: "")) of its key is to be delivered")
        }
    }

    func reject() {
        guard let position = anyPosition() else { return }
        reject(position, by: holder(position))
    }

    func reject(_ position: FeedPosition, by consumer: String?) {
        let delay = random.oneIn(2) ? Int64(random.below(150)) : nil
        let isFinal = random.oneIn(5)
        let wasAdopted = machine.isAdopted(position)
        let result = machine.reject(
            position, by: consumer, after: delay, reason: "no", isFinal: isFinal, now: moment)
        note("nack \(position.id(in: "")) by \(consumer ?? "anybody") after \(delay ?? -1) final \(isFinal): \(result)")
        expectResult(result, position, consumer)
        guard result == .done else {
            if wasAdopted { held[position] = nil }
            return
        }
        goesBack(position)
        guard takeovers > 0 else { return }
        // For deliveries by a former owner, all later messages of the key are assumed to be held by the same consumer.
        let key = key(position)
        held = held.filter { other, _ in other < position || self.key(other) != key }
    }

    func extend() {
        guard let position = anyPosition() else { return }
        let consumer = holder(position)
        // Not longer than an owner waits that takes over the feed.
        let milliseconds = 1 + Int64(random.below(Int(settings.ackDeadlineMilliseconds)))
        let wasAdopted = machine.isAdopted(position)
        let result = machine.extend(position, by: consumer, to: milliseconds, now: moment)
        note("extend \(position.id(in: "")) by \(consumer ?? "anybody") \(milliseconds): \(result)")
        expectResult(result, position, consumer)
        guard result == .done else {
            if wasAdopted { held[position] = nil }
            return
        }
        held[position]?.deadline = now + milliseconds
    }

    /// Usually returns the consumer that holds the message.
    private func holder(_ position: FeedPosition) -> String? {
        switch random.below(6) {
        case 0: nil
        case 1: random.pick(Self.consumers)
        default: held[position]?.consumer
        }
    }

    private func expectResult(_ result: FeedMachine.Result, _ position: FeedPosition, _ consumer: String?) {
        guard let holding = held[position] else {
            // Any consumer may settle a message that a former owner may have delivered.
            if takeovers == 0, now >= 1_000 + settings.ackDeadlineMilliseconds, result == .done {
                check(false, "\(position.id(in: "")) is not held, and was done")
            }
            return
        }
        guard takeovers == 0, consumer == nil || consumer == holding.consumer else { return }
        check(result == .done, "\(position.id(in: "")) is held, and the answer is \(result)")
    }

    func wait(_ milliseconds: Int64) {
        now += milliseconds
        note("wait \(milliseconds)")
        machine.advance(to: moment)
        for (position, holding) in held.sorted(by: { $0.value.deadline < $1.value.deadline })
        where holding.deadline <= now && held[position] != nil { goesBack(position) }
        guard takeovers > 0 else { return }
        // The machine did not know that an earlier message of a former owner was done. At its deadline, all later ones
        // were returned.
        let waiting = machine.slots.values.filter { !$0.isHeld }
        held = held.filter { position, _ in
            machine.slots[position].map(\.isHeld) ?? true
                || !waiting.contains { $0.position < position && key($0.position) == key(position) }
        }
    }
}

extension FeedMachine {
    /// Whether the machine knows that the consumer holds the message. It does not know the deliveries of a former
    /// owner.
    func isKnownToHold(_ position: FeedPosition, _ consumer: String) -> Bool {
        slots[position].map { $0.holder?.name == consumer } ?? false
    }
}

extension FeedMachine.Found {
    var isNone: Bool { if case .held = self { false } else { true } }
}
