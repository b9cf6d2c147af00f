public import Tree

extension RequestPath {
    /// The path part of a URL: `/a/b.json`, percent-encoded; the root is `/.json`. `parse` reads it back.
    public static func text(_ path: Path) -> String {
        var text = ""
        for key in path.keys {
            text += "/"
            text += PercentEncoding.encode(key.text.utf8)
        }
        return (path.isRoot ? "/" : text) + ".json"
    }
}
