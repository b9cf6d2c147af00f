import LogStore
import Runtime

extension FeedMachine {
    /// A message that is not done. Belongs to its machine.
    final class Slot: OpenPosition {
        let message: FeedMessage
        /// The message's number in the order in which messages arrived at the machine, or returned to their keys.
        var number: Int
        let isRetry: Bool
        /// The approximate memory of the message in bytes.
        let bytes: Int
        /// The state of the message's key, once the message is queued or held.
        var key: KeyState?
        /// The number of attempts that count, including the current one.
        var attempts = 0
        var failures: [FeedFailure] = []
        /// Whether the database stores the message as a `FailedMessage`.
        var hasFailedMessage = false
        /// The consumer that holds the message, or nil if unknown; see `isAdopted`.
        fileprivate(set) var holder: Holder?
        /// The index of the message among the messages that the holder has received through the same opening.
        fileprivate var heldIndex = 0
        /// The connection of the last delivery, or nil if the request belonged to no opening. Does not change while the message is held.
        var opening: FeedOpening?
        /// The record of that opening, as long as the next opening may acknowledge the message, and the message's index in it.
        var handOuts: HandOuts?
        var handOutIndex = 0
        /// Whether the message counts as held by an unknown consumer after a takeover.
        var isAdopted = false
        /// Whether a previous owner may have delivered the message while it waits for room to be set aside. If it is not set aside
        /// in the end, it is adopted.
        var mayBeOut = false
        /// Whether the message is one of the machine's `parked` messages.
        var isParked = false
        var deadline: Int64 = 0
        /// The number of the last delivery among all deliveries of the feed, or 0 if there was none.
        var delivery: UInt64 = 0
        /// The number of the delivery by a previous run, or 0 if unknown.
        var formerDelivery: UInt64 = 0
        /// The neighbours in the list of the key's held messages, in the order of delivery. The machine retains each slot
        /// as long as it is linked.
        fileprivate(set) unowned(unsafe) var previousHeld: Slot?
        fileprivate(set) unowned(unsafe) var nextHeld: Slot?

        /// Whether messages of the key are ordered by position instead of by number.
        private let isOrderedByPosition: Bool

        /// The message's turn among the messages of its key.
        var turn: Turn { Turn(number: isOrderedByPosition ? 0 : number, position: position) }

        init(_ message: FeedMessage, number: Int, isRetry: Bool, isOrderedByPosition: Bool = false) {
            self.message = message
            self.number = number
            self.isRetry = isRetry
            self.isOrderedByPosition = isOrderedByPosition
            bytes = message.estimatedBytes
            super.init(message.position)
        }

        /// Whether a consumer holds or may hold the message.
        var isHeld: Bool { holder != nil || isAdopted }
    }

    /// The order of a message within its key. If dead letters stop keys, retries keep their original order.
    struct Turn: Comparable {
        let number: Int
        let position: FeedPosition

        static func < (one: Turn, other: Turn) -> Bool {
            one.number == other.number ? one.position < other.position : one.number < other.number
        }
    }

    /// The messages of one key.
    final class KeyState {
        let name: FeedKey
        /// The messages that are not held, in order.
        var queue = SlotQueue()
        private(set) var held = 0
        private(set) unowned(unsafe) var lastHeld: Slot?
        /// The time before which no message of the key is delivered.
        var waitsUntil: Int64?
        /// The number of dead letters of the key that are not durable. Until they are, no message of the key is delivered: if a
        /// dead letter were lost, a later message would have been processed before it.
        var unrecordedDeaths = 0
        var isInLine = false

        init(_ name: FeedKey) { self.name = name }

        /// Adds a message to the held messages of the key.
        func hold(_ slot: Slot) {
            held += 1
            slot.previousHeld = lastHeld
            lastHeld?.nextHeld = slot
            lastHeld = slot
        }

        /// Removes a message from the held messages of the key.
        func release(_ slot: Slot) {
            held -= 1
            slot.previousHeld?.nextHeld = slot.nextHeld
            if let next = slot.nextHeld { next.previousHeld = slot.previousHeld } else { lastHeld = slot.previousHeld }
            slot.previousHeld = nil
            slot.nextHeld = nil
        }
    }

    /// The messages that a consumer holds.
    final class Holder {
        let name: String
        private(set) var count = 0
        /// The messages by opening, so that the cost of releasing one opening does not depend on the others.
        private var hands: [FeedOpening?: Hand] = [:]

        init(_ name: String) { self.name = name }

        var slots: [Slot] { hands.values.flatMap(\.slots) }

        /// Returns the messages that the consumer received through an opening and still holds.
        func slots(of opening: FeedOpening) -> [Slot] { Array(hands[opening]?.slots ?? []) }

        func add(_ slot: Slot) {
            slot.holder = self
            hands[slot.opening, default: Hand()].add(slot)
            count += 1
        }

        func remove(_ slot: Slot) {
            guard slot.holder === self else { return }
            slot.holder = nil
            hands[slot.opening, default: Hand()].remove(slot)
            if hands[slot.opening]?.slots.isEmpty == true { hands[slot.opening] = nil }
            count -= 1
        }

        func removeAll() {
            for slot in slots { slot.holder = nil }
            hands.removeAll()
            count = 0
        }
    }

    private struct Hand {
        var slots: ContiguousArray<Slot> = []

        mutating func add(_ slot: Slot) {
            slot.heldIndex = slots.count
            slots.append(slot)
        }

        mutating func remove(_ slot: Slot) {
            guard let last = slots.popLast(), last !== slot else { return }
            last.heldIndex = slot.heldIndex
            slots[slot.heldIndex] = last
        }
    }

    /// The keys with a message ready for delivery, ordered by the number of their next message.
    struct KeyLine {
        private var heap = TimerHeap<KeyState>()

        var isEmpty: Bool { heap.isEmpty }
        /// The number of the first key's next message.
        var first: Int? { heap.earliest.map { Int($0) } }

        mutating func add(_ key: KeyState, _ number: Int) { heap.add(key, at: Int64(number)) }

        mutating func popFirst() -> KeyState? { heap.take(by: .max)?.item }
    }

    enum Timer {
        /// The deadline of the message at a position.
        case deadline(FeedPosition)
        case wake(KeyState)
    }

    /// A pending change of the stored state of a message.
    enum FailedMessageChange: Sendable {
        case put(FailedMessage)
        case remove

        /// Returns the change with the message of an earlier change that may not have been written, unless it has a message itself.
        func keepingMessage(of former: FailedMessageChange?) -> FailedMessageChange {
            guard case .put(let failedMessage) = self, failedMessage.message == nil, case .put(let old)? = former,
                old.message != nil
            else { return self }
            return .put(
                FailedMessage(
                    position: failedMessage.position, key: failedMessage.key, state: failedMessage.state,
                    attempts: failedMessage.attempts,
                    failures: failedMessage.failures, message: old.message))
        }
    }

    enum Found {
        case held(Slot)
        case notHeld
        case missing
    }
}

/// A message's ordering key. Two keys are equal if their bytes are equal, as in the tree, in the log and in SQL.
/// Swift's strings are already equal if they are canonically equivalent.
struct FeedKey: Hashable, Sendable {
    let text: String

    init(_ text: String) { self.text = text }

    static func == (left: FeedKey, right: FeedKey) -> Bool {
        // Strings with the same bytes are equal, and comparing equal strings is fast.
        left.text == right.text && left.text.utf8.elementsEqual(right.text.utf8)
    }

    func hash(into hasher: inout Hasher) { hasher.combine(text) }
}

/// Waiting slots in the order of their turns. Slots are removed from the front, appended at the back, and put back in order.
struct SlotQueue {
    private var slots: ContiguousArray<FeedMachine.Slot?> = []
    private var head = 0

    var isEmpty: Bool { head == slots.count }
    var count: Int { slots.count - head }
    var first: FeedMachine.Slot? { isEmpty ? nil : slots[head] }

    /// Returns the first slot that meets a condition. O(slots before it).
    func first(where isWanted: (FeedMachine.Slot) -> Bool) -> FeedMachine.Slot? {
        for slot in slots[head...] { if let slot, isWanted(slot) { return slot } }
        return nil
    }

    mutating func popFirst() -> FeedMachine.Slot? {
        guard head < slots.count else { return nil }
        let slot = slots[head]
        // A removed slot must not stay in memory.
        slots[head] = nil
        head += 1
        if head == slots.count {
            slots.removeAll(keepingCapacity: slots.count <= 64)
            head = 0
        } else if head >= 1_024, head * 2 >= slots.count {
            slots.removeFirst(head)
            head = 0
        }
        return slot
    }

    /// Inserts a slot in order. Most slots go to the back, or return to the front.
    mutating func insert(_ slot: FeedMachine.Slot) {
        let turn = slot.turn
        if isEmpty || isBefore(slots.count - 1, turn) { return slots.append(slot) }
        if head > 0, !isBefore(head, turn) {
            head -= 1
            slots[head] = slot
            return
        }
        var low = head
        var high = slots.count
        while low < high {
            let middle = (low + high) / 2
            if isBefore(middle, turn) { low = middle + 1 } else { high = middle }
        }
        slots.insert(slot, at: low)
    }

    /// Removes the slots that do not meet the condition, and returns them in order.
    @discardableResult
    mutating func keep(_ isWanted: (FeedMachine.Slot) -> Bool) -> [FeedMachine.Slot] {
        let all = slots[head...].compactMap { $0 }
        let gone = all.filter { !isWanted($0) }
        guard !gone.isEmpty else { return [] }
        slots = ContiguousArray(all.filter(isWanted))
        head = 0
        return gone
    }

    /// Removes all slots and returns them in order.
    mutating func takeAll() -> [FeedMachine.Slot] {
        defer { removeAll() }
        return slots[head...].compactMap { $0 }
    }

    mutating func removeAll() {
        slots.removeAll()
        head = 0
    }

    private func isBefore(_ index: Int, _ turn: FeedMachine.Turn) -> Bool {
        slots[index].map { $0.turn < turn } ?? true
    }
}
