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
