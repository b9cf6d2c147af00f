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
