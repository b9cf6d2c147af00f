"""The brokers that librdkafka has for tests, and a reader of their topics. A program of its own: its library's threads end with it.

Takes commands as lines of JSON on standard input and answers each with a line; ends when its input does. The first line that it
writes is {"brokers": "HOST:PORT"}.

    {"do": "topic", "name": T, "partitions": N}
    {"do": "down"}, {"do": "up"}             connections to the brokers end and are refused, or are taken again
    {"do": "errors", "numbers": [19, …]}     all requests with records get these errors for a while; then connections end once
    {"do": "slow", "ms": N}                  how long answers take
    {"do": "read"}                           -> {"records": [[TOPIC, PARTITION, VALUE], …]}, those since the last time, in order
"""

import ctypes
import ctypes.util
import json
import sys
import threading
import time

LIBRARY = ctypes.CDLL(ctypes.util.find_library("rdkafka") or "librdkafka.so.1")
PRODUCER, CONSUMER, PRODUCE_REQUEST, BEGINNING = 0, 1, 0, -2
BROKER = 1
# More errors than there are requests until connections have ended.
MOST_REFUSED = 3000


class Message(ctypes.Structure):
    """rd_kafka_message_t"""

    _fields_ = [("err", ctypes.c_int), ("rkt", ctypes.c_void_p), ("partition", ctypes.c_int32), ("payload", ctypes.c_void_p),
                ("len", ctypes.c_size_t), ("key", ctypes.c_void_p), ("key_len", ctypes.c_size_t), ("offset", ctypes.c_int64),
                ("private", ctypes.c_void_p)]


class Place(ctypes.Structure):
    """The beginning of rd_kafka_topic_partition_t"""

    _fields_ = [("topic", ctypes.c_char_p), ("partition", ctypes.c_int32), ("offset", ctypes.c_int64)]


for name, result in (("rd_kafka_conf_new", ctypes.c_void_p), ("rd_kafka_new", ctypes.c_void_p), ("rd_kafka_mock_cluster_new", ctypes.c_void_p),
                     ("rd_kafka_mock_cluster_bootstraps", ctypes.c_char_p), ("rd_kafka_topic_partition_list_new", ctypes.c_void_p),
                     ("rd_kafka_topic_partition_list_add", ctypes.POINTER(Place)), ("rd_kafka_consumer_poll", ctypes.POINTER(Message)),
                     ("rd_kafka_topic_name", ctypes.c_char_p)):
    getattr(LIBRARY, name).restype = result


def handle(kind: int, **settings: str) -> ctypes.c_void_p:
    text = ctypes.create_string_buffer(256)
    configuration = ctypes.c_void_p(LIBRARY.rd_kafka_conf_new())
    LIBRARY.rd_kafka_conf_set_log_cb(configuration, None)
    for key, value in settings.items():
        if LIBRARY.rd_kafka_conf_set(configuration, key.replace("_", ".").encode(), value.encode(), text, 256):
            raise RuntimeError(text.value.decode())
    made = LIBRARY.rd_kafka_new(kind, configuration, text, ctypes.c_size_t(256))
    if not made:
        raise RuntimeError(text.value.decode())
    return ctypes.c_void_p(made)


class Brokers:
    """One broker, and all records that it has taken."""

    def __init__(self):
        self._host = handle(PRODUCER)
        self._cluster = ctypes.c_void_p(LIBRARY.rd_kafka_mock_cluster_new(self._host, 1))
        self.addresses = LIBRARY.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._topics: dict[str, int] = {}
        self._records: list[tuple[str, int, str]] = []
        self._lock = threading.Lock()

    def topic(self, name: str, partitions: int):
        LIBRARY.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)
        threading.Thread(target=self._read, args=(name, partitions), daemon=True).start()

    def _read(self, topic: str, partitions: int):
        reader = handle(CONSUMER, bootstrap_servers=self.addresses, group_id="reader", enable_auto_commit="false",
                        reconnect_backoff_max_ms="200")
        LIBRARY.rd_kafka_poll_set_consumer(reader)
        places = ctypes.c_void_p(LIBRARY.rd_kafka_topic_partition_list_new(partitions))
        for partition in range(partitions):
            LIBRARY.rd_kafka_topic_partition_list_add(places, topic.encode(), partition).contents.offset = BEGINNING
        LIBRARY.rd_kafka_assign(reader, places)
        while True:
            found = LIBRARY.rd_kafka_consumer_poll(reader, 200)
            if not found:
                continue
            message = found.contents
            if message.err == 0:
                with self._lock:
                    self._records.append((topic, message.partition, ctypes.string_at(message.payload, message.len).decode()))
            LIBRARY.rd_kafka_message_destroy(found)

    def do(self, command: dict) -> dict:
        what = command["do"]
        if what == "topic":
            self.topic(command["name"], command["partitions"])
        elif what == "down":
            LIBRARY.rd_kafka_mock_broker_set_down(self._cluster, BROKER)
        elif what == "up":
            LIBRARY.rd_kafka_mock_broker_set_up(self._cluster, BROKER)
        elif what == "errors":
            self._fail(command["numbers"])
        elif what == "slow":
            LIBRARY.rd_kafka_mock_broker_set_rtt(self._cluster, BROKER, command["ms"])
        elif what == "read":
            with self._lock:
                records, self._records = self._records, []
            return {"records": records}
        return {}

    def _fail(self, numbers: list[int]):
        """Answers all requests with errors, until connections have ended.

        A real broker refuses a request if it has refused the one before it. This one takes it, and the producer concludes that the earlier
        request was taken, too. Therefore no request may succeed while an earlier one is in flight.
        """
        numbers = numbers * (MOST_REFUSED // len(numbers))
        LIBRARY.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(PRODUCE_REQUEST), ctypes.c_size_t(len(numbers)), (ctypes.c_int * len(numbers))(*numbers))
        time.sleep(0.2)
        LIBRARY.rd_kafka_mock_broker_set_down(self._cluster, BROKER)
        LIBRARY.rd_kafka_mock_clear_request_errors(self._cluster, ctypes.c_int16(PRODUCE_REQUEST))
        LIBRARY.rd_kafka_mock_broker_set_up(self._cluster, BROKER)


def main():
    brokers = Brokers()
    print(json.dumps({"brokers": brokers.addresses}), flush=True)
    for line in sys.stdin:
        print(json.dumps(brokers.do(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
