import Runtime

extension FeedMachine {
    /// A message that is not done. Belongs to its machine.
    final class Slot: OpenPlace {
        let message: FeedMessage
        /// Counts the messages of the machine, in the order in which they came, or came back to their keys.
        var number: Int
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
        /// Its place among what the holder has of its opening.
        fileprivate var heldIndex = 0
        /// The connection that was handed it last; nil for a request that stood for itself. Does not change while the message is held.
        var opening: FeedOpening?
        /// What that opening was handed, while the next one may acknowledge the message; and its place there.
        var handOuts: HandOuts?
        var handOutIndex = 0
        /// It is not known who has it, or whether somebody does.
        var isAdopted = false
        /// A former owner may have handed it out, and it waits for room to be set aside. If it is not set aside in the end, it is adopted.
        var mayBeOut = false
        /// It is among the machine's `parked` messages.
        var isParked = false
        var deadline: Int64 = 0
        /// Counts all deliveries of the feed.
        var delivery: UInt64 = 0
        /// The number of the delivery by a former run; 0 if it is not known.
        var formerDelivery: UInt64 = 0
        /// Neighbours among the held messages of its key, in the order in which they were handed out. The machine keeps each for as long as it
        /// is linked.
        fileprivate(set) unowned(unsafe) var previousHeld: Slot?
        fileprivate(set) unowned(unsafe) var nextHeld: Slot?

        /// Whether the message comes before and after others of its key by its place, and not by its number.
        private let isOrderedByPlace: Bool

        /// Which message of a key comes first.
        var turn: Turn { Turn(number: isOrderedByPlace ? 0 : number, position: position) }

        init(_ message: FeedMessage, number: Int, isRetry: Bool, isOrderedByPlace: Bool = false) {
            self.message = message
            self.number = number
            self.isRetry = isRetry
            self.isOrderedByPlace = isOrderedByPlace
            bytes = message.estimatedBytes
            super.init(message.position)
        }

        /// Whether somebody has it, or may have it.
        var isHeld: Bool { holder != nil || isAdopted }
    }

    /// A message's place among those of its key. Where dead letters stop their keys, messages to retry keep the places that they had.
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
        /// Those that nobody has, in order.
        var queue = SlotQueue()
        private(set) var held = 0
        private(set) unowned(unsafe) var lastHeld: Slot?
        /// Not before then.
        var waitsUntil: Int64?
        /// The dead letters of the key that are not durable. Nothing of the key is handed out meanwhile: if they were lost, a later message
        /// would have been processed before them.
        var unrecordedDeaths = 0
        var isInLine = false

        init(_ name: FeedKey) { self.name = name }

        /// A message of the key is held from now on.
        func hold(_ slot: Slot) {
            held += 1
            slot.previousHeld = lastHeld
            lastHeld?.nextHeld = slot
            lastHeld = slot
        }

        /// A message of the key is not held any more.
        func letGo(_ slot: Slot) {
            held -= 1
            slot.previousHeld?.nextHeld = slot.nextHeld
            if let next = slot.nextHeld { next.previousHeld = slot.previousHeld } else { lastHeld = slot.previousHeld }
            slot.previousHeld = nil
            slot.nextHeld = nil
        }
    }

    /// What a consumer has.
    final class Holder {
        let name: String
        private(set) var count = 0
        /// By openings, so that one of them gives back what it was handed in a time that does not grow with what the others have.
        private var hands: [FeedOpening?: Hand] = [:]

        init(_ name: String) { self.name = name }

        var slots: [Slot] { hands.values.flatMap(\.slots) }

        /// Returns the messages that one opening handed to the consumer and the consumer still holds.
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

        /// The change with the message of a former one that may not be written, where it has none itself.
        func keepingMessage(of former: LetterChange?) -> LetterChange {
            guard case .put(let letter) = self, letter.message == nil, case .put(let old)? = former, old.message != nil
            else { return self }
            return .put(
                FeedLetter(
                    position: letter.position, key: letter.key, state: letter.state, attempts: letter.attempts,
                    failures: letter.failures, message: old.message))
        }
    }

    enum Found {
        case held(Slot)
        case notHeld
        case missing
    }
}

/// A message's ordering key. Two keys are one where they have the same bytes, as in the tree, in the log and in SQL: Swift's strings are equal
/// already where they look alike.
struct FeedKey: Hashable, Sendable {
    let text: String

    init(_ text: String) { self.text = text }

    static func == (left: FeedKey, right: FeedKey) -> Bool {
        // Strings of the same bytes are equal, and the comparison of equal ones is quick.
        left.text == right.text && left.text.utf8.elementsEqual(right.text.utf8)
    }

    func hash(into hasher: inout Hasher) { hasher.combine(text) }
}

/// Slots that wait in the order of their turns: taken from the front, added at the back, and put back where they belong.
struct SlotQueue {
    private var slots: ContiguousArray<FeedMachine.Slot?> = []
    private var head = 0

    var isEmpty: Bool { head == slots.count }
    var count: Int { slots.count - head }
    var first: FeedMachine.Slot? { isEmpty ? nil : slots[head] }

    /// The first that meets a condition. O(those before it).
    func first(where isWanted: (FeedMachine.Slot) -> Bool) -> FeedMachine.Slot? {
        for slot in slots[head...] { if let slot, isWanted(slot) { return slot } }
        return nil
    }

    mutating func popFirst() -> FeedMachine.Slot? {
        guard head < slots.count else { return nil }
        let slot = slots[head]
        // What has left keeps nothing in memory.
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

    /// Puts a slot where it belongs: mostly at the back, or back to the front.
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

    /// Takes those out that are not `isWanted`; returns them, in order.
    @discardableResult
    mutating func keep(_ isWanted: (FeedMachine.Slot) -> Bool) -> [FeedMachine.Slot] {
        let all = slots[head...].compactMap { $0 }
        let gone = all.filter { !isWanted($0) }
        guard !gone.isEmpty else { return [] }
        slots = ContiguousArray(all.filter(isWanted))
        head = 0
        return gone
    }

    /// Takes all out, in order.
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
