/// Rows of cells in columns that align, and that fit a terminal.
struct TextTable {
    private let titles: [String]
    private let numbers: Set<Int>
    private var rows: [[String]] = []

    /// What a column has at least where others have no more to give.
    private static let least = 8
    private static let gap = 2

    /// - Parameters:
    ///   - titles: the columns' names, shown on a terminal only: programs and pipes get rows.
    ///   - numbers: the columns that are aligned at their ends.
    init(_ titles: [String], numbers: Set<Int> = []) {
        self.titles = titles
        self.numbers = numbers
    }

    mutating func add(_ cells: String...) { rows.append(cells) }

    /// - Parameter cells: one a column.
    mutating func add(_ cells: [String]) { rows.append(cells) }

    var isEmpty: Bool { rows.isEmpty }

    /// On the console's terminal as wide as that is, elsewhere as wide as the cells are.
    func write(to console: Console) {
        guard !rows.isEmpty else { return }
        for line in lines(width: console.outputWidth) { console.write(line) }
    }

    /// - Parameter width: the terminal's; nil where there is none.
    func lines(width: Int?) -> [String] {
        let shown = width == nil ? rows : [titles] + rows
        var widths = titles.indices.map { column in shown.map { TextWidth.of($0[column]) }.max() ?? 0 }
        guard let width else { return shown.map { line($0, widths) } }
        fit(&widths, to: width - Self.gap * (widths.count(where: { $0 > 0 }) - 1))
        // A terminal that is too narrow even so shows the first columns.
        return shown.map { TextWidth.fitted(line($0, widths), to: width) }
    }

    /// Takes from the widest until it is enough.
    private func fit(_ widths: inout [Int], to width: Int) {
        while widths.reduce(0, +) > width, let widest = widths.indices.max(by: { widths[$0] < widths[$1] }),
            widths[widest] > Self.least
        {
            widths[widest] -= 1
        }
    }

    private func line(_ cells: [String], _ widths: [Int]) -> String {
        var line = ""
        for (column, cell) in cells.enumerated() where widths[column] > 0 {
            let text = TextWidth.fitted(cell, to: widths[column])
            let space = String(repeating: " ", count: widths[column] - TextWidth.of(text))
            if !line.isEmpty || column > 0 && widths[..<column].contains(where: { $0 > 0 }) {
                line += String(repeating: " ", count: Self.gap)
            }
            line += numbers.contains(column) ? space + text : text + space
        }
        while line.last == " " { line.removeLast() }
        return line
    }
}

/// A table whose rows are written as they come: its columns have widths that are known before. On a terminal titles come
/// before the first row, and lines end where that ends; elsewhere cells are whole, and two spaces apart.
struct StreamedTable {
    struct Column {
        let title: String
        /// What the cells are padded to, and cut unless they are whole; nil for those that take what is left.
        let width: Int?
        /// Whether they are aligned at their ends.
        let isNumber: Bool
        /// Whether cells that are wider are shown whole, and move what follows.
        let isWhole: Bool

        init(_ title: String, _ width: Int? = nil, isNumber: Bool = false, isWhole: Bool = false) {
            self.title = title
            self.width = width
            self.isNumber = isNumber
            self.isWhole = isNumber || isWhole
        }
    }

    private static let gap = "  "
    private let columns: [Column]
    private let width: Int?
    private var hasTitles = false

    /// - Parameter width: the terminal's; nil where there is none.
    init(_ columns: [Column], width: Int?) {
        self.columns = columns
        self.width = width
    }

    /// The lines of one more row, with the titles before the first.
    ///
    /// - Parameter cells: one a column.
    mutating func lines(_ cells: [String]) -> [String] {
        guard let width else { return [cells.joined(separator: Self.gap)] }
        let row = line(cells, width)
        guard !hasTitles else { return [row] }
        hasTitles = true
        return [line(columns.map(\.title), width), row]
    }

    private func line(_ cells: [String], _ width: Int) -> String {
        let padded = zip(columns, cells).map { column, cell in
            // Numbers that have grown wider than was foreseen are shown whole.
            guard let least = column.width else { return cell }
            let text = column.isWhole ? cell : TextWidth.fitted(cell, to: least)
            let space = String(repeating: " ", count: max(0, least - TextWidth.of(text)))
            return column.isNumber ? space + text : text + space
        }
        return TextWidth.fitted(padded.joined(separator: Self.gap), to: width)
    }
}
