import HTTPServer
import Wire

/// A page whose unloading ends a polling session. Chromium refuses to wait for an answer while a page goes away, and others
/// don't know requests that outlive their page.
enum DisconnectFrame {
    static func send(_ parameters: RealtimeParameters, _ exchange: HTTPExchange) throws(RESTError) {
        guard let page = page(id: parameters["id"], password: parameters["pw"]) else {
            throw RESTError(400, "id and pw are missing")
        }
        exchange.respond(
            status: 200, headers: ["Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-cache"],
            body: Array(page.utf8))
    }

    /// Nil where the id or the password is none: they stand in a script.
    static func page(id: String?, password: String?) -> String? {
        guard let id, let password, isToken(id), isToken(password) else { return nil }
        return """
            <!DOCTYPE html><html><head><script>
            function end(){var u="/.lp?disconn=t&id=\(id)&pw=\(password)";
            if(window.Request&&"keepalive" in Request.prototype){fetch(u,{keepalive:true});}
            else{var r=new XMLHttpRequest();r.open("GET",u,false);r.send();}}
            window.onpagehide=end;
            </script></head><body></body></html>
            """
    }

    private static func isToken(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte) }
    }
}
