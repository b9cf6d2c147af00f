import Runtime

extension FeedMachine {
    /// A message that is not done. Belongs to its machine.
    final class Slot: OpenPlace {
        let message: FeedMessage
        /// Counts the messages of the machine, in the order in which they came.
        let number: Int
        let isRetry: Bool
        /// About what it costs in memory.
        let bytes: Int
        /// The state of its key, once it waits there or is held.
        var key: KeyState?
        /// Deliveries that count, with the present one.
        var attempts = 0
        var failures: [FeedFailure] = []
        /// Whether the database has a letter of it.
        var hasLetter = false
        /// Who has it; nil where that is not known, see `isAdopted`.
        fileprivate(set) var holder: Holder?
        /// Its place among what the holder has.
        fileprivate var heldIndex = 0
        /// Who has it, or had it last.
        var lastHolder: String?
        /// It is not known who has it, or whether somebody does.
        var isAdopted = false
        var deadline: Int64 = 0
        /// Counts all deliveries of the feed.
        var delivery: UInt64 = 0

        init(_ message: FeedMessage, number: Int, isRetry: Bool) {
            self.message = message
            self.number = number
            self.isRetry = isRetry
            bytes = message.estimatedBytes
            super.init(message.position)
        }

        /// Whether somebody has it, or may have it.
        var isHeld: Bool { holder != nil || isAdopted }
    }

    /// The messages of one key.
    final class KeyState {
        let name: FeedKey
        /// Those that nobody has, in order.
        var queue = SlotQueue()
        var held = 0
        /// Not before then.
        var waitsUntil: Int64?
        var isInLine = false

        init(_ name: FeedKey) { self.name = name }
    }

    /// What a consumer has.
    final class Holder {
        let name: String
        private(set) var slots: ContiguousArray<Slot> = []

        init(_ name: String) { self.name = name }

        func add(_ slot: Slot) {
            slot.holder = self
            slot.heldIndex = slots.count
            slots.append(slot)
        }

        func remove(_ slot: Slot) {
            guard slot.holder === self else { return }
            slot.holder = nil
            let last = slots.removeLast()
            guard last !== slot else { return }
            last.heldIndex = slot.heldIndex
            slots[slot.heldIndex] = last
        }

        func removeAll() {
            for slot in slots { slot.holder = nil }
            slots.removeAll()
        }
    }

    /// The keys that have something for whoever asks, those first whose next message is the oldest.
    struct KeyLine {
        private var heap = TimerHeap<KeyState>()

        var isEmpty: Bool { heap.isEmpty }
        /// The number of the oldest message.
        var first: Int? { heap.earliest.map { Int($0) } }

        mutating func add(_ key: KeyState, _ number: Int) { heap.add(key, at: Int64(number)) }

        mutating func popFirst() -> KeyState? { heap.take(by: .max)?.item }
    }

    enum Timer {
        /// The deadline of the message there.
        case deadline(FeedPosition)
        case wake(KeyState)
    }

    /// What becomes of a message's letter.
    enum LetterChange: Sendable {
        case put(FeedLetter)
        case remove
    }

    enum Found {
        case held(Slot)
        case notHeld
        case missing
    }
}
