/// Numbers that wait in ascending order: taken from the front, added at the back, and put back where they belong. Pure.
struct NumberQueue: Sendable {
    private var numbers: [Int] = []
    private var head = 0

    var isEmpty: Bool { head == numbers.count }
    var count: Int { numbers.count - head }
    var first: Int? { isEmpty ? nil : numbers[head] }
    var all: ArraySlice<Int> { numbers[head...] }

    mutating func popFirst() -> Int? {
        guard head < numbers.count else { return nil }
        defer {
            head += 1
            if head == numbers.count {
                numbers.removeAll(keepingCapacity: numbers.count <= 64)
                head = 0
            } else if head >= 1_024, head * 2 >= numbers.count {
                numbers.removeFirst(head)
                head = 0
            }
        }
        return numbers[head]
    }

    /// Puts a number where it belongs: mostly at the back, or back to the front.
    mutating func insert(_ number: Int) {
        if isEmpty || numbers[numbers.count - 1] < number { return numbers.append(number) }
        if head > 0, number < numbers[head] {
            head -= 1
            numbers[head] = number
            return
        }
        var low = head
        var high = numbers.count
        while low < high {
            let middle = (low + high) / 2
            if numbers[middle] < number { low = middle + 1 } else { high = middle }
        }
        numbers.insert(number, at: low)
    }

    /// Leaves only those that `isWanted`.
    mutating func keep(_ isWanted: (Int) -> Bool) {
        numbers = all.filter(isWanted)
        head = 0
    }

    mutating func removeAll() {
        numbers.removeAll()
        head = 0
    }
}
