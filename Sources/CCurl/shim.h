#pragma once
#include <curl/curl.h>
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

// Swift can't call functions with variable arguments: one function for each type of argument.

static inline CURLcode pathmirror_curl_set_long(CURL *easy, CURLoption option, long value)
{
    return curl_easy_setopt(easy, option, value);
}

static inline CURLcode pathmirror_curl_set_size(CURL *easy, CURLoption option, curl_off_t value)
{
    return curl_easy_setopt(easy, option, value);
}

static inline CURLcode pathmirror_curl_set_text(CURL *easy, CURLoption option, const char *value)
{
    return curl_easy_setopt(easy, option, value);
}

static inline CURLcode pathmirror_curl_set_list(CURL *easy, CURLoption option, struct curl_slist *value)
{
    return curl_easy_setopt(easy, option, value);
}

static inline CURLcode pathmirror_curl_set_pointer(CURL *easy, CURLoption option, void *value)
{
    return curl_easy_setopt(easy, option, value);
}

typedef size_t (*pathmirror_curl_sink)(char *bytes, size_t size, size_t count, void *context);

static inline CURLcode pathmirror_curl_set_sink(CURL *easy, CURLoption option, pathmirror_curl_sink value)
{
    return curl_easy_setopt(easy, option, value);
}

static inline CURLcode pathmirror_curl_set_socket_opener(CURL *easy, curl_opensocket_callback value, void *context)
{
    CURLcode code = curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, value);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, context) : code;
}

static inline CURLcode pathmirror_curl_set_sending_check(CURL *easy, curl_prereq_callback value, void *context)
{
    CURLcode code = curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, value);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_PREREQDATA, context) : code;
}

// libcurl calls the function before it resolves a name that it does not know yet, and for addresses, too.
static inline CURLcode pathmirror_curl_set_resolver_watcher(CURL *easy, curl_resolver_start_callback value, void *context)
{
    CURLcode code = curl_easy_setopt(easy, CURLOPT_RESOLVER_START_FUNCTION, value);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_RESOLVER_START_DATA, context) : code;
}

static inline CURLcode pathmirror_curl_set_socket_closer(CURL *easy, curl_closesocket_callback value, void *context)
{
    CURLcode code = curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, value);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, context) : code;
}

// Has libcurl's notes on what it does sent to a function.
static inline CURLcode pathmirror_curl_set_notes(CURL *easy, curl_debug_callback value, void *context)
{
    CURLcode code = curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, value);
    if (code == CURLE_OK) code = curl_easy_setopt(easy, CURLOPT_DEBUGDATA, context);
    return code == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L) : code;
}

static inline CURLSHcode pathmirror_curl_share_connections(CURLSH *share)
{
    return curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT);
}

static inline CURLMcode pathmirror_curl_multi_set_watcher(CURLM *multi, curl_socket_callback value, void *context)
{
    CURLMcode code = curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, value);
    return code == CURLM_OK ? curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, context) : code;
}

static inline CURLMcode pathmirror_curl_multi_set_timer(CURLM *multi, curl_multi_timer_callback value, void *context)
{
    CURLMcode code = curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, value);
    return code == CURLM_OK ? curl_multi_setopt(multi, CURLMOPT_TIMERDATA, context) : code;
}

// OpenSSL's connection of a transfer that has one; NULL without TLS. Only in libcurl's callbacks.
static inline void *pathmirror_curl_tls(CURL *easy)
{
    struct curl_tlssessioninfo *info = NULL;
    if (curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &info) != CURLE_OK || !info) return NULL;
    return info->backend == CURLSSLBACKEND_OPENSSL ? info->internals : NULL;
}

// The port of a socket at this machine's end; 0 where it has none.
static inline int pathmirror_socket_port(int socket)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname(socket, (struct sockaddr *)&address, &length) != 0) return 0;
    if (address.ss_family == AF_INET) return ntohs(((struct sockaddr_in *)&address)->sin_port);
    if (address.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return 0;
}

// How many bytes that were written to a TCP socket its peer has not acknowledged; 0 where that is not known.
static inline int pathmirror_socket_unacknowledged(int socket)
{
    int bytes = 0;
    return ioctl(socket, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

// The C address within libcurl's; it has `addrlen` bytes, more than the type says.
static inline const void *pathmirror_curl_address(const struct curl_sockaddr *address)
{
    return &address->addr;
}

static inline CURLMcode pathmirror_curl_multi_set_long(CURLM *multi, CURLMoption option, long value)
{
    return curl_multi_setopt(multi, option, value);
}

static inline long pathmirror_curl_status(CURL *easy)
{
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

// Where a redirect leads, as an absolute address; NULL without one. Lasts as long as the handle is left alone.
static inline const char *pathmirror_curl_redirect(CURL *easy)
{
    char *url = NULL;
    curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &url);
    return url;
}

// Of the last request, its head and body.
static inline long pathmirror_curl_sent(CURL *easy)
{
    long bytes = 0;
    curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &bytes);
    return bytes;
}

// CURLMsg keeps its result in a union, which Swift sees as a tuple of its own making.
static inline CURLcode pathmirror_curl_result(const CURLMsg *message)
{
    return message->data.result;
}
