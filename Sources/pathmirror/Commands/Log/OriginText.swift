import LogStore
import Tree

/// Who made an entry, in words.
enum OriginText {
    /// Such as `ada by ws from 10.0.0.7`, `administrator by sql as report`.
    static func whom(_ origin: Origin?) -> String {
        guard let members = origin.flatMap({ RawJSON($0.json).members }) else { return "unknown" }
        let value = { (name: String) in members.first { $0.key == name }?.value }
        var text = value("uid")?.string ?? (value("admin")?.bool == true ? "administrator" : "anonymous")
        if let via = value("via")?.string { text += " by \(via)" }
        if let role = value("role")?.string { text += " as \(role)" }
        if let address = value("ip")?.string { text += " from \(address)" }
        // Users' ids are what whoever issues tokens lets them be.
        return TextWidth.plain(text)
    }
}
