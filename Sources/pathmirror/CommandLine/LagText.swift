/// How far something is behind, as people read it.
enum LagText {
    /// `250 ms`, `3 s`, `9 min`, `5 h`, `3 d`: whole units, of the largest that fits.
    static func text(seconds: Double) -> String {
        let whole = Int64(min(max(0, seconds), 1e15))
        switch whole {
        case ..<1: return "\(Int64((max(0, seconds) * 1_000).rounded())) ms"
        case ..<60: return "\(whole) s"
        case ..<3_600: return "\(whole / 60) min"
        case ..<172_800: return "\(whole / 3_600) h"
        default: return "\(whole / 86_400) d"
        }
    }
}
