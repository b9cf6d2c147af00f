#pragma once
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

// An RSA public key of its two numbers, big-endian; NULL when they are none.
static inline EVP_PKEY *pathmirror_rsa_public_key(
    const unsigned char *modulus, size_t modulus_count, const unsigned char *exponent, size_t exponent_count)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    OSSL_PARAM *parameters = NULL;
    BIGNUM *n = BN_bin2bn(modulus, (int)modulus_count, NULL);
    BIGNUM *e = BN_bin2bn(exponent, (int)exponent_count, NULL);
    if (context && builder && n && e && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) == 1
        && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e) == 1
        && (parameters = OSSL_PARAM_BLD_to_param(builder)) != NULL && EVP_PKEY_fromdata_init(context) == 1
        && EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters) != 1) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    OSSL_PARAM_free(parameters);
    OSSL_PARAM_BLD_free(builder);
    BN_free(n);
    BN_free(e);
    EVP_PKEY_CTX_free(context);
    return key;
}

// The public key of an X.509 certificate in PEM; NULL when the text is none.
static inline EVP_PKEY *pathmirror_certificate_key(const void *pem, size_t count)
{
    EVP_PKEY *key = NULL;
    BIO *input = BIO_new_mem_buf(pem, (int)count);
    X509 *certificate = input ? PEM_read_bio_X509(input, NULL, NULL, NULL) : NULL;
    if (certificate) key = X509_get_pubkey(certificate);
    X509_free(certificate);
    BIO_free(input);
    return key;
}

// No password is ever asked for: an encrypted key is refused.
static inline int pathmirror_no_password(char *buffer, int size, int writing, void *context)
{
    (void)buffer;
    (void)size;
    (void)writing;
    (void)context;
    return -1;
}

// A private key in PEM; NULL when the text is none.
static inline EVP_PKEY *pathmirror_private_key(const void *pem, size_t count)
{
    BIO *input = BIO_new_mem_buf(pem, (int)count);
    EVP_PKEY *key = input ? PEM_read_bio_PrivateKey(input, NULL, pathmirror_no_password, NULL) : NULL;
    BIO_free(input);
    return key;
}

// A new RSA key of so many bits; NULL when libcrypto can't make one.
static inline EVP_PKEY *pathmirror_new_rsa_key(unsigned int bits)
{
    return EVP_RSA_gen(bits);
}

// Writes the private key in PEM (PKCS #8, without a password). The caller frees the BIO; NULL when it can't be written.
static inline BIO *pathmirror_private_key_text(EVP_PKEY *key)
{
    BIO *output = BIO_new(BIO_s_secmem());
    if (output && PEM_write_bio_PKCS8PrivateKey(output, key, NULL, NULL, 0, NULL, NULL) != 1) {
        BIO_free(output);
        return NULL;
    }
    return output;
}

// The bytes that were written to the BIO; they belong to it.
static inline size_t pathmirror_written(BIO *output, const char **bytes)
{
    char *start = NULL;
    long count = BIO_get_mem_data(output, &start);
    *bytes = start;
    return count > 0 ? (size_t)count : 0;
}
