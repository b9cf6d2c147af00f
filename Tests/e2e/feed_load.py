"""Writers and consumers that continue through all faults of gateways, and record their observations in a model."""

import http.client
import random
import threading
import time

from feed_model import FeedModel
from harness.feeds import Feed, given
from harness.waiting import wait_until

KEYS = 12
# The answers of a gateway that is starting, stopping or without its database.
PASSING = {429, 503}


class Worker(threading.Thread):
    """Repeats `step` until a test stops it, and keeps an unexpected failure."""

    def __init__(self, seed: int):
        super().__init__(daemon=True)
        self.dice = random.Random(seed)
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        self.steps = 0

    def run(self):
        while not self.stop.is_set():
            try:
                self.step()
                self.steps += 1
            except (OSError, http.client.HTTPException):
                # The outcome of this request is unknown.
                self.stop.wait(0.02)
            except BaseException as failure:
                self.failure = failure
                return

    def step(self):
        raise NotImplementedError


class Writer(Worker):
    """Sets and removes records, through any of the gateways. The log shows the outcome."""

    def __init__(self, seed: int, rests: list, collection: str = "orders", pause: float = 0.0):
        super().__init__(seed)
        self.rests, self.collection, self.pause = rests, collection, pause

    def step(self):
        rest, key = self.dice.choice(self.rests), f"{self.collection}/k{self.dice.randrange(KEYS)}"
        kind = self.dice.random()
        value = {"n": self.dice.randrange(10**9)}
        if kind < 0.1:
            answer = rest.delete(key)
        elif kind < 0.25:
            answer = rest.patch(self.collection, {f"k{self.dice.randrange(KEYS)}": value, f"k{self.dice.randrange(KEYS)}x": value})
        else:
            answer = rest.put(key, value)
        assert answer.status in {200, *PASSING}, (answer.status, answer.body)
        self.stop.wait(self.pause if answer.status == 200 else 0.02)


class Consumer(Worker):
    """Pulls messages, and acknowledges, refuses, extends or forgets them."""

    def __init__(self, seed: int, feeds: list[Feed], model: FeedModel, name: str, forgets: float = 0.0, refuses: float = 0.1):
        super().__init__(seed)
        self.feeds, self.model, self.forgets, self.refuses = feeds, model, forgets, refuses
        self.consumer = name
        self.taken = 0

    def step(self):
        feed, asked = self.dice.choice(self.feeds), self.model.now()
        answer = feed.call("POST", "pull", {"max": self.dice.randrange(1, 30), "wait": "200ms", "consumer": self.consumer})
        if answer.status in PASSING:
            self.stop.wait(0.02)
            return
        assert answer.status == 200, (answer.status, answer.body)
        messages = answer.json()["messages"]
        self.model.delivered(self.consumer, messages, asked)
        self.taken += len(messages)
        if not messages or self.dice.random() < self.forgets:
            return
        ids = [message["id"] for message in messages]
        cut = self.dice.randrange(len(ids)) if self.dice.random() < self.refuses else len(ids)
        if self.dice.random() < 0.1:
            self.settle("extend", ids, delay="10m")
        self.settle("ack", ids[:cut])
        if cut < len(ids):
            self.settle("nack", ids[cut:], delay="0s")

    def settle(self, what: str, ids: list[str], **members):
        """Repeats a request until the gateway answers it, as a persistent consumer does."""
        if what != "extend":
            self.model.settles(self.consumer, ids)
        while not self.stop.is_set():
            try:
                answer = self.dice.choice(self.feeds).call("POST", what, given(ids=ids, consumer=self.consumer, **members))
            except (OSError, http.client.HTTPException):
                self.stop.wait(0.02)
                continue
            if answer.status in PASSING:
                self.stop.wait(0.02)
                continue
            assert answer.status == 200, (answer.status, answer.body)
            if what == "ack":
                self.model.acknowledged(answer.json()["results"])
            return


class Load:
    """Writers and consumers at work. Use as a context."""

    def __init__(self, feeds: list[Feed], model: FeedModel, seed: int, writers: int = 3, consumers: int = 4, forgets: float = 0.0,
                 pause: float = 0.002):
        self.feeds, self.model = feeds, model
        rests = [feed.rest for feed in feeds]
        self.writers = [Writer(seed * 100 + number, rests, pause=pause) for number in range(writers)]
        self.consumers = [Consumer(seed * 100 + 50 + number, feeds, model, f"c{number}", forgets) for number in range(consumers)]

    def __enter__(self) -> "Load":
        for worker in [*self.writers, *self.consumers]:
            worker.start()
        return self

    def __exit__(self, *_):
        for worker in [*self.writers, *self.consumers]:
            worker.stop.set()
        for worker in [*self.writers, *self.consumers]:
            worker.join(60)

    @property
    def taken(self) -> int:
        return sum(consumer.taken for consumer in self.consumers)

    def fail(self):
        """Raises the failure of a worker."""
        for worker in [*self.writers, *self.consumers]:
            if worker.failure:
                raise worker.failure

    def progress(self, patience: float = 30, count: int = 20) -> float:
        """Waits until consumers have taken `count` more messages, and returns the seconds."""
        before, start = self.taken, time.monotonic()

        def went_on():
            self.fail()
            return self.taken >= before + count

        wait_until(went_on, f"{count} more messages; {before} had been taken", patience)
        return time.monotonic() - start

    def finish(self, patience: float = 60):
        """Ends the writers, waits until the consumers have received all messages, and ends them."""
        for writer in self.writers:
            writer.stop.set()
        for writer in self.writers:
            writer.join(60)

        def drained():
            self.fail()
            try:
                answers = [feed.call("GET", "status") for feed in self.feeds]
            except (OSError, http.client.HTTPException):
                return False
            return all(answer.status == 200 and (status := answer.json())["lag_entries"] == 0 and status["pending_messages"] == 0
                       and status["held_messages"] == 0 for answer in answers)

        wait_until(drained, "the feed to be drained", patience, 0.1)
        self.__exit__()
        self.fail()
