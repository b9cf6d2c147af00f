// TLS by OpenSSL's libssl (Debian package libssl-dev), and what of it are macros that Swift does not see.
#ifndef PATHMIRROR_COPENSSL_SHIM_H
#define PATHMIRROR_COPENSSL_SHIM_H

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

// No password is ever asked for: an encrypted key is refused.
static inline int pathmirror_tls_no_password(char *buffer, int size, int writing, void *context) {
    (void)buffer;
    (void)size;
    (void)writing;
    (void)context;
    return -1;
}

// HTTP/1.1 is all that is spoken here: a client that offers protocols and not this one is told so (RFC 7301).
static inline int pathmirror_tls_choose_protocol(
    SSL *ssl, const unsigned char **chosen, unsigned char *length, const unsigned char *offered, unsigned int count,
    void *context) {
    static const unsigned char http1[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
    (void)ssl;
    (void)context;
    return SSL_select_next_proto((unsigned char **)chosen, length, http1, sizeof http1, offered, count)
            == OPENSSL_NPN_NEGOTIATED
        ? SSL_TLSEXT_ERR_OK
        : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// A server's context without a certificate: TLS 1.2 with forward secrecy, and 1.3; NULL where there is no memory.
static inline SSL_CTX *pathmirror_tls_server_context(void) {
    static const unsigned char name[] = "pathmirror";
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context) return NULL;
    // Written piece by piece from queues whose memory moves; idle connections hold no record buffers.
    SSL_CTX_set_mode(
        context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(
        context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    // A record's head and body by one system call.
    SSL_CTX_set_read_ahead(context, 1);
    // Sessions are kept by the clients, in tickets.
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(context, pathmirror_tls_choose_protocol, NULL);
    SSL_CTX_set_default_passwd_cb(context, pathmirror_tls_no_password);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1
        || SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1
        || SSL_CTX_set_session_id_context(context, name, sizeof name - 1) != 1) {
        SSL_CTX_free(context);
        return NULL;
    }
    return context;
}

// A client's context: certificates are checked, and against no authorities yet; NULL where there is no memory.
static inline SSL_CTX *pathmirror_tls_client_context(void) {
    static const unsigned char http1[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context) return NULL;
    SSL_CTX_set_mode(
        context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1
        || SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1
        || SSL_CTX_set_alpn_protos(context, http1, sizeof http1) != 0) {
        SSL_CTX_free(context);
        return NULL;
    }
    return context;
}

// Has the certificate checked for an IP address, or for a name, which is sent to the server, too. 0 where that can't be.
static inline int pathmirror_tls_expect_host(SSL *ssl, const char *host) {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1) return 1;
    ERR_clear_error();
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

// How many seconds the context's certificate is still good for; negative where it has expired.
static inline long long pathmirror_tls_seconds_left(SSL_CTX *context) {
    X509 *certificate = SSL_CTX_get0_certificate(context);
    int days = 0;
    int seconds = 0;
    if (!certificate || ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(certificate)) != 1) return 0;
    return (long long)days * 86400 + seconds;
}

// The SHA-256 of the public key of the context's certificate, as it stands there: 32 bytes. 1 on success.
static inline int pathmirror_tls_public_key_digest(SSL_CTX *context, unsigned char *digest) {
    X509 *certificate = SSL_CTX_get0_certificate(context);
    unsigned char *bytes = NULL;
    unsigned int length = 0;
    int count = certificate ? i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &bytes) : 0;
    int done = count > 0 && EVP_Digest(bytes, (size_t)count, digest, &length, EVP_sha256(), NULL) == 1 && length == 32;
    OPENSSL_free(bytes);
    return done;
}

#endif
