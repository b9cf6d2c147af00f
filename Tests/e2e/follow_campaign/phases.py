"""The phases of the campaign. Each brings its faults while the upstream is written to at full speed, and ends with everything equal."""

import signal
import time

from harness.waiting import Late, wait_until
from upstream.proxy import DOWN, random_cuts

from .judging import Violation
from .world import TOKEN_LIFETIME, World

# The longest data that a cut waits for.
_REACH = 60_000


class Phase:
    """Runs one phase, and prints its line."""

    def __init__(self, world: World, name: str, writes: int):
        self.world, self.name, self.left, self.writing = world, name, writes, 0.0
        self._written = 0

    def run(self, work):
        world, before, begin = self.world, dict(self.world.figures), time.monotonic()
        world.proxy.counted()
        noted = work(self)
        while self.left:
            self.write(min(self.left, 2_000)).done()
        busy = time.monotonic() - begin
        world.settle()
        settled = time.monotonic() - begin - busy
        world.verify()
        up, down = world.proxy.counted()
        changed = {name: value - before.get(name, 0) for name, value in world.figures.items() if value != before.get(name, 0)}
        figures = ", ".join(f"{name} {value}" for name, value in changed.items())
        print(f"{self.name}: {busy:.0f} s, equal {settled:.1f} s later; {figures}; {up} bytes up, {down} down{f'; {noted}' if noted else ''}", flush=True)

    def write(self, count: int):
        """A burst; counts it against the writes of the phase. When those are used up, a few more still come."""
        count = max(20, min(count, self.left)) if self.left else 20
        self.left = max(0, self.left - count)
        return self.world.burst(count)


def strike(world: World, burst, late: float = 0):
    """Waits for a random moment within a burst, or up to some seconds after it."""
    time.sleep(world.dice.uniform(0, burst.count / world.pace + late))


def cuts(phase: Phase, count: int):
    """Connections end at random bytes: within handshakes and resyncs, and within the stream of messages."""
    world, begin = phase.world, phase.world.proxy.cuts
    deadline = time.monotonic() + 60 + 8 * count
    while (done := world.proxy.cuts - begin) < count:
        if time.monotonic() > deadline:
            raise Violation(f"only {done} cuts in {60 + 8 * count} s: the follower does not come back\n{world.report()}")
        burst = phase.write(phase.left // max(1, count - done))
        if world.dice.random() < 0.4:
            # The next connections end early, in their handshakes or in the middle of what was missed.
            world.proxy.plan(random_cuts(world.dice, world.dice.randrange(1, min(4, count - done + 1))), 1)
        world.proxy.cut_after(world.dice.randrange(1, _REACH), DOWN)
        burst.done()
        if world.dice.random() < 0.2:
            world.proxy.cut()
        if world.dice.random() < 0.5:
            _calm(world)


def _calm(world: World):
    """Waits a while for the follower, so that not only gaps are left."""
    try:
        wait_until(lambda: world.sessions and not world.proxy.planned, "the follower", 5, 0.02)
    except Late:
        pass


def kills(phase: Phase, count: int):
    """kill -9 of the gateway that follows, at random points; of both now and then, and sometimes before it follows again."""
    world = phase.world
    for number in range(count):
        if world.dice.random() < 0.85:
            follower = world.wait_follower(90)
        else:
            # It may be starting, or taking the claim.
            time.sleep(world.dice.uniform(0, 6))
            follower = world.follower() or 0
        # The first half arrives, unless the follower is slow; the second half is interrupted.
        phase.write(phase.left // max(1, 2 * (count - number))).done()
        time.sleep(world.dice.choice([0, 0, 0.2, 1]))
        burst = phase.write(phase.left // max(1, 2 * (count - number) - 1))
        strike(world, burst, 0.05)
        world.kill(follower)
        if world.dice.random() < 0.1:
            world.kill(1 - follower)
        burst.done()
        # A gateway that is killed while it starts has done nothing.
        world.gateways[1 - follower].wait_ready(90)


def freezes(phase: Phase, count: int):
    """The gateway that follows stands still; another takes over, and the first one wakes in the middle of writes."""
    world = phase.world
    for number in range(count):
        world.ready()
        frozen = world.wait_follower()
        burst = phase.write(phase.left // max(1, 3 * (count - number)))
        strike(world, burst)
        gateway = world.gateways[frozen]
        gateway.process.freeze()
        world.counts["freezes"] += 1
        burst.done()
        burst = phase.write(phase.left // max(1, 3 * (count - number) - 1))
        try:
            made = len(world.sessions)
            wait_until(lambda: len(world.sessions) > made, "another gateway to follow", 30)
        except Late as late:
            raise Violation(f"{late} after one was frozen\n{world.report()}") from None
        burst.done()
        burst = phase.write(phase.left // max(1, 3 * (count - number) - 2))
        strike(world, burst)
        gateway.process.send(signal.SIGCONT)
        burst.done()
        try:
            wait_until(lambda: len(world.sessions) == 1, "the replaced gateway to disconnect", 60, 0.05)
        except Late as late:
            raise Violation(f"{late}\n{world.report()}") from None


def starts(phase: Phase, count: int):
    """Both gateways are gone, and start at once."""
    world = phase.world
    for number in range(count):
        burst = phase.write(phase.left // max(1, 2 * (count - number)))
        strike(world, burst)
        for one in (0, 1):
            world.gateways[one].process.kill()
        burst.done()
        for one in (0, 1):
            world.restart(one)
        # Both start now, and the upstream continues.
        burst = phase.write(phase.left // max(1, 2 * (count - number) - 1))
        world.counts["starts"] += 1
        world.wait_follower(90)
        burst.done()
        world.ready()
        if len(world.sessions) > 1:
            raise Violation(f"{len(world.sessions)} followers listen\n{world.report()}")


def restarts(phase: Phase, count: int):
    """PostgreSQL stops in order, crashes, or is killed, and comes back after a while."""
    world = phase.world
    for number in range(count):
        burst = phase.write(phase.left // max(1, count - number))
        strike(world, burst)
        how = world.dice.choice(["fast", "immediate", "kill"])
        world.cluster.kill() if how == "kill" else world.cluster.stop(how)
        time.sleep(world.dice.choice([0, 0.5, 3]))
        world.cluster.start()
        world.counts["restarts of PostgreSQL"] += 1
        burst.done()
        world.ready()
        world.wait_follower(90)


def tokens(phase: Phase, count: float):
    """Tokens that expire every 20 s: they are renewed on the living connection, without a new listen. Then the token endpoint is down: the
    follower stays until the upstream ends its session, says what is wrong, and recovers by itself."""
    world, account, seconds = phase.world, phase.world.standin.account, count
    world.settle()
    listens, sessions, resyncs, renewed = world.listens, world.proxy.connections, world.judge.counts["resync"], len(account.issued)
    brought = {name: world.counts[name] for name in ("listens equal", "listens ranges", "listens whole")}
    begin, all_writes = time.monotonic(), phase.left
    while (passed := time.monotonic() - begin) < seconds:
        wanted = int(all_writes * min(1, passed / seconds)) - (all_writes - phase.left)
        if wanted >= 20:
            phase.write(wanted).done()
        time.sleep(0.2)
    world.settle()
    issued = len(account.issued) - renewed
    if issued < seconds / TOKEN_LIFETIME - 1:
        raise Violation(f"{issued} tokens in {seconds} s")
    if (world.listens, world.judge.counts["resync"], {name: world.counts[name] for name in brought}) != (listens, resyncs, brought):
        raise Violation(f"in {seconds:.0f} s without a fault: {world.listens - listens} new listens and {world.judge.counts['resync'] - resyncs} resyncs; "
                        f"{world.proxy.connections - sessions} connections\n{world.report()}")
    account.mode = "down"
    try:
        wait_until(lambda: not world.sessions, "the upstream to end the session", 3 * TOKEN_LIFETIME, 0.05)
        down = time.monotonic()
        status = world.following.wait_trouble("token", "credential", patience=40)
        burst = phase.write(100)
        time.sleep(3)
        burst.done()
    except Late as late:
        raise Violation(f"with the token endpoint down: {late}\n{world.report()}") from None
    finally:
        account.mode = "ok"
    world.wait_follower(90)
    return f"{issued} tokens without a new listen; without the endpoint '{status['state']}: {status['message']}', and back after {time.monotonic() - down:.1f} s"


def everything(phase: Phase, count: int):
    """All of these faults in a random order, without waiting for the follower in between."""
    world = phase.world
    for number in range(count):
        burst = phase.write(phase.left // max(1, count - number))
        strike(world, burst, 0.1)
        fault = world.dice.choice(["cut", "plan", "kill", "kill", "both", "freeze", "postgres", "frozen link", "tokens"])
        world.counts[f"mixed: {fault}"] += 1
        if fault == "cut":
            world.proxy.cut(world.dice.random() < 0.5)
        elif fault == "plan":
            world.proxy.plan(random_cuts(world.dice, 3), 1)
            world.proxy.cut()
        elif fault in ("kill", "both"):
            for one in [world.follower() or 0] if fault == "kill" else (0, 1):
                world.kill(one)
        elif fault == "freeze":
            gateway = world.gateways[world.follower() or 0]
            gateway.process.freeze()
            time.sleep(world.dice.choice([0.5, 4, 8]))
            gateway.process.send(signal.SIGCONT)
        elif fault == "postgres":
            world.cluster.kill()
            time.sleep(world.dice.uniform(0, 2))
            world.cluster.start()
        elif fault == "frozen link":
            world.proxy.freeze()
            time.sleep(world.dice.uniform(0.1, 3))
            world.proxy.thaw()
        else:
            world.revoke(world.dice.random() < 0.5)
        burst.done()
