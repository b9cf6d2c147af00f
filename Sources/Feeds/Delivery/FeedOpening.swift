import LogStore

/// Identifies a connection of a consumer: an event stream, a pull with `resume`, or a pull forwarded by another gateway.
///
/// The messages of an opening arrive on one connection, in the order of their delivery.
public struct FeedOpening: Sendable, Hashable {
    private let number: UInt64

    /// Creates a unique identifier.
    public init() { number = .random(in: .min ... .max) }

    /// Parses the format of `text`. Returns nil for any other text.
    public init?(text: String) {
        guard text.utf8.count == 16, let number = UInt64(text, radix: 16) else { return nil }
        self.number = number
    }

    /// The identifier as 16 hexadecimal digits, for another gateway.
    public var text: String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }
}

extension FeedMachine {
    /// The messages delivered to one opening, in the order of delivery, without messages that have changed hands since.
    ///
    /// The consumer's next opening may acknowledge them by naming the last message it received.
    final class HandOuts {
        let opening: FeedOpening
        let consumer: String
        /// The message that the consumer named when it opened this connection. If the next opening names the same message, it
        /// acknowledges nothing: a consumer that received nothing repeats the id.
        let base: FeedPosition?
        /// Whether the connection can still receive messages.
        var isOpen = true
        private(set) var count = 0
        /// The messages that left without being done. The connection may receive them again, and their ids are then ambiguous.
        private var left: Set<FeedPosition> = []
        /// Whether more messages left than are remembered.
        private var isUnclear = false
        private static let mostLeft = 100
        /// The messages; nil for a message that left.
        private var slots: ContiguousArray<Slot?> = []

        init(_ opening: FeedOpening, of consumer: String, base: FeedPosition?) {
            self.opening = opening
            self.consumer = consumer
            self.base = base
        }

        /// Adds a message that belongs to no opening.
        func add(_ slot: Slot) {
            slot.handOuts = self
            slot.handOutIndex = slots.count
            slots.append(slot)
            count += 1
        }

        /// Removes a message. O(1) on average.
        ///
        /// - Parameter mayReturn: Whether the connection can receive the message a second time.
        func remove(_ slot: Slot, mayReturn: Bool) {
            guard slot.handOuts === self else { return }
            slot.handOuts = nil
            slots[slot.handOutIndex] = nil
            count -= 1
            if mayReturn { noteLeft(slot.position) }
            if slots.count > 64, count < slots.count / 2 { close(up: slots.compactMap { $0 }) }
        }

        private func noteLeft(_ position: FeedPosition) {
            guard !isUnclear else { return }
            left.insert(position)
            guard left.count > Self.mostLeft else { return }
            left = []
            isUnclear = true
        }

        /// Returns whether an id names this connection's delivery of a message and no other delivery.
        func names(_ slot: Slot, by id: FeedEventID) -> Bool {
            if let delivery = id.delivery { return slot.delivery == delivery }
            return id.position != base && !isUnclear && !left.contains(id.position)
        }

        func removeAll() {
            for slot in slots { slot?.handOuts = nil }
            slots.removeAll()
            count = 0
        }

        /// Returns the messages up to and including `last`, which must be one of them, in the order of delivery.
        func through(_ last: Slot) -> [Slot] { slots[...last.handOutIndex].compactMap { $0 } }

        private func close(up left: [Slot]) {
            slots = ContiguousArray(left)
            for (index, slot) in left.enumerated() { slot.handOutIndex = index }
        }
    }
}
