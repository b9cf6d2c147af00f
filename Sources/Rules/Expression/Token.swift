/// A token of a rule expression.
enum Token: Equatable {
    case number(Double)
    case string(String)
    case identifier(String)
    case mark(Mark)
    case end

    enum Mark: String {
        case openParenthesis = "("
        case closeParenthesis = ")"
        case openBracket = "["
        case closeBracket = "]"
        case comma = ","
        case dot = "."
        case question = "?"
        case colon = ":"
        case not = "!"
        case minus = "-"
        case plus = "+"
        case times = "*"
        case slash = "/"
        case percent = "%"
        case equal = "=="
        case identical = "==="
        case unequal = "!="
        case notIdentical = "!=="
        case less = "<"
        case lessOrEqual = "<="
        case greater = ">"
        case greaterOrEqual = ">="
        case and = "&&"
        case or = "||"
        case assign = "="
    }
}
