/// `name` as an SQL identifier: in double quotes, inner double quotes doubled. The one place where identifiers are
/// quoted.
///
/// A NUL cannot be part of an identifier and is left out. PostgreSQL cuts identifiers at 63 bytes; that is the
/// caller's to check.
public func quotedIdentifier(_ name: String) -> String {
    var quoted = "\""
    for scalar in name.unicodeScalars where scalar != "\0" {
        if scalar == "\"" {
            quoted.unicodeScalars.append("\"")
        }
        quoted.unicodeScalars.append(scalar)
    }
    quoted.append("\"")
    return quoted
}
