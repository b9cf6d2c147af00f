/// Rows of cells in aligned columns that fit a terminal.
struct TextTable {
    private let titles: [String]
    private let numbers: Set<Int>
    private var rows: [[String]] = []

    /// The least width of a column that is shortened.
    private static let least = 8
    private static let gap = 2

    /// - Parameters:
    ///   - titles: the columns' names, shown on a terminal only.
    ///   - numbers: the indexes of columns that are aligned to the right.
    init(_ titles: [String], numbers: Set<Int> = []) {
        self.titles = titles
        self.numbers = numbers
    }

    mutating func add(_ cells: String...) { rows.append(cells) }

    /// - Parameter cells: one for each column.
    mutating func add(_ cells: [String]) { rows.append(cells) }

    var isEmpty: Bool { rows.isEmpty }

    /// Writes the table: as wide as the terminal, or as wide as its cells without a terminal.
    func write(to console: Console) {
        guard !rows.isEmpty else { return }
        for line in lines(width: console.outputWidth) { console.write(line) }
    }

    /// - Parameter width: the terminal's; nil without a terminal.
    func lines(width: Int?) -> [String] {
        let shown = width == nil ? rows : [titles] + rows
        var widths = titles.indices.map { column in shown.map { TextWidth.of($0[column]) }.max() ?? 0 }
        guard let width else { return shown.map { line($0, widths) } }
        fit(&widths, to: width - Self.gap * (widths.count(where: { $0 > 0 }) - 1))
        // On a terminal that is still too narrow, only the first columns are visible.
        return shown.map { TextWidth.fitted(line($0, widths), to: width) }
    }

    /// Shortens the widest columns until the line fits.
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

/// A table whose rows are written as they arrive, with column widths that are fixed beforehand. On a terminal a row of titles comes first,
/// and lines are cut at its width. Elsewhere cells are whole, and two spaces apart.
struct StreamedTable {
    struct Column {
        let title: String
        /// The width to which cells are padded, and cut unless `isWhole`; nil for a column that takes the remaining width.
        let width: Int?
        /// Whether cells are aligned to the right.
        let isNumber: Bool
        /// Whether wider cells are shown whole, which shifts the following cells.
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

    /// - Parameter width: the terminal's; nil without a terminal.
    init(_ columns: [Column], width: Int?) {
        self.columns = columns
        self.width = width
    }

    /// Returns the lines of one more row, after the titles if the row is the first.
    ///
    /// - Parameter cells: one for each column.
    mutating func lines(_ cells: [String]) -> [String] {
        guard let width else { return [cells.joined(separator: Self.gap)] }
        let row = line(cells, width)
        guard !hasTitles else { return [row] }
        hasTitles = true
        return [line(columns.map(\.title), width), row]
    }

    private func line(_ cells: [String], _ width: Int) -> String {
        let padded = zip(columns, cells).map { column, cell in
            // Numbers wider than expected are shown whole.
            guard let least = column.width else { return cell }
            let text = column.isWhole ? cell : TextWidth.fitted(cell, to: least)
            let space = String(repeating: " ", count: max(0, least - TextWidth.of(text)))
            return column.isNumber ? space + text : text + space
        }
        return TextWidth.fitted(padded.joined(separator: Self.gap), to: width)
    }
}
