// The client of Kafka (Debian package librdkafka-dev), and the cluster of brokers that it has for tests.
#pragma once
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

// Swift can't call functions with variable arguments. Key and value are copied; the headers are librdkafka's where this
// succeeds.
static inline rd_kafka_resp_err_t pathmirror_kafka_produce(rd_kafka_t *client, const char *topic, const void *key,
                                                           size_t key_size, const void *value, size_t value_size,
                                                           rd_kafka_headers_t *headers, void *context)
{
    return rd_kafka_producev(client, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY(key, key_size),
                             RD_KAFKA_V_VALUE((void *)value, value_size), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                             RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE(context), RD_KAFKA_V_END);
}
