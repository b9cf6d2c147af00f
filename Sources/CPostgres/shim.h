#ifndef PATHMIRROR_CPOSTGRES_SHIM_H
#define PATHMIRROR_CPOSTGRES_SHIM_H

// Where Debian has it; elsewhere the compiler is told where.
#if __has_include(<postgresql/libpq-fe.h>)
#include <postgresql/libpq-fe.h>
#else
#include <libpq-fe.h>
#endif
#include <sys/eventfd.h>

/* The field codes of PQresultErrorField are character macros that Swift does not import as the int the call takes. */
static inline const char *pathmirror_pq_sqlstate(const PGresult *result) {
    return PQresultErrorField(result, PG_DIAG_SQLSTATE);
}
static inline const char *pathmirror_pq_severity(const PGresult *result) {
    return PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
}
static inline const char *pathmirror_pq_message(const PGresult *result) {
    return PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
}
static inline const char *pathmirror_pq_detail(const PGresult *result) {
    return PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
}
static inline const char *pathmirror_pq_hint(const PGresult *result) {
    return PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
}
static inline const char *pathmirror_pq_table(const PGresult *result) {
    return PQresultErrorField(result, PG_DIAG_TABLE_NAME);
}
static inline const char *pathmirror_pq_constraint(const PGresult *result) {
    return PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);
}
/* The name of the server's function that said it: unlike the text it is in no language. */
static inline const char *pathmirror_pq_source_function(const PGresult *result) {
    return PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);
}

/* Glibc's Swift module leaves eventfd(2) out. */
static inline int pathmirror_pq_wake_descriptor(void) {
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

#endif
