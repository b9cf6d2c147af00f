#include "include/CRE2.h"

#include <cstring>
#include <exception>
#include <new>

#include <re2/re2.h>

struct pathmirror_re2 {
    explicit pathmirror_re2(const re2::StringPiece &pattern, const RE2::Options &options) : re(pattern, options) {}
    RE2 re;
};

namespace {
void copy_error(const char *message, char *error, size_t capacity) {
    if (capacity == 0) return;
    std::strncpy(error, message, capacity - 1);
    error[capacity - 1] = '\0';
}
}  // namespace

extern "C" pathmirror_re2 *pathmirror_re2_compile(const char *pattern, size_t length, int64_t max_memory,
                                                  char *error, size_t error_capacity) {
    try {
        RE2::Options options;
        options.set_log_errors(false);
        options.set_never_capture(true);
        // A byte is a character, in patterns and texts.
        options.set_encoding(RE2::Options::EncodingLatin1);
        options.set_max_mem(max_memory);
        // The answer is the same, and the order of alternatives makes no states of its own.
        options.set_longest_match(true);
        auto *compiled = new pathmirror_re2(re2::StringPiece(pattern, length), options);
        if (compiled->re.ok()) return compiled;
        copy_error(compiled->re.error().c_str(), error, error_capacity);
        delete compiled;
        return nullptr;
    } catch (const std::exception &failure) {
        copy_error(failure.what(), error, error_capacity);
        return nullptr;
    }
}

extern "C" void pathmirror_re2_free(pathmirror_re2 *pattern) { delete pattern; }

extern "C" bool pathmirror_re2_matches(const pathmirror_re2 *pattern, const char *text, size_t length) {
    try {
        return pattern->re.Match(re2::StringPiece(text, length), 0, length, RE2::ANCHOR_START, nullptr, 0);
    } catch (const std::exception &) {
        return false;
    }
}

extern "C" int pathmirror_re2_program_size(const pathmirror_re2 *pattern) { return pattern->re.ProgramSize(); }
