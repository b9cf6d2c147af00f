/// Returns the text of the error with which `body` fails, or an empty text if it does not fail.
func refusal(_ body: () throws -> Void) -> String {
    do {
        try body()
        return ""
    } catch {
        return "\(error)"
    }
}
