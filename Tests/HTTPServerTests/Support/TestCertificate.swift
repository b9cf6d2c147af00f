import COpenSSL
import Glibc

/// A certificate and its key in files of their own, created for one test and removed with it.
final class TestCertificate {
    let directory: String
    var certificateFile: String { directory + "/certificate.pem" }
    var keyFile: String { directory + "/key.pem" }

    init(serial: Int = 1) throws {
        var template = Array("/tmp/pathmirror-tls-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw ClientFailure(description: "mkdtemp: errno \(errno)") }
        directory = String(cString: made)
        try write(serial: serial)
    }

    deinit {
        unlink(certificateFile)
        unlink(keyFile)
        rmdir(directory)
    }

    /// Replaces the certificate and the key.
    func write(serial: Int) throws {
        let key = try Self.makeKey()
        defer { EVP_PKEY_free(key) }
        try save(keyFile) { PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil) }
        let certificate = X509_new()
        defer { X509_free(certificate) }
        X509_set_version(certificate, 2)
        ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial)
        X509_gmtime_adj(X509_getm_notBefore(certificate), -3600)
        X509_gmtime_adj(X509_getm_notAfter(certificate), 86_400)
        X509_set_pubkey(certificate, key)
        let name = X509_get_subject_name(certificate)
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, "localhost", -1, -1, 0)
        X509_set_issuer_name(certificate, name)
        guard X509_sign(certificate, key, nil) > 0 else { throw ClientFailure(description: "X509_sign") }
        try save(certificateFile) { PEM_write_bio_X509($0, certificate) }
    }

    /// Replaces a file by a text.
    func write(_ text: String, to file: String) throws {
        try save(file) { BIO_write($0, text, Int32(text.utf8.count)) }
    }

    private static func makeKey() throws -> OpaquePointer {
        let context = EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, nil)
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1, EVP_PKEY_keygen(context, &key) == 1, let key else {
            throw ClientFailure(description: "EVP_PKEY_keygen")
        }
        return key
    }

    private func save(_ file: String, _ body: (OpaquePointer) -> Int32) throws {
        guard let output = BIO_new_file(file, "w") else { throw ClientFailure(description: "no \(file)") }
        defer { BIO_free(output) }
        guard body(output) > 0 else { throw ClientFailure(description: "writing \(file)") }
    }
}
