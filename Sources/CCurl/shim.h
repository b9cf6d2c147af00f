#pragma once
#include <curl/curl.h>

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
