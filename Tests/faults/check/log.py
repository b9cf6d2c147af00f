"""Checks the log, and compares it with the answers to clients."""

from collections import Counter, defaultdict

from workload.history import OK, REFUSED, UNKNOWN, History, Operation

from .entries import Entry, Restored, assign, keys, tokens

# Answers with 503 that promise that nothing was written (docs/reference/errors.md).
NOT_WRITTEN = ("The database is unavailable.", "Too many writes are waiting.", "The gateway is shutting down.", "has not applied seq")


def shape(entries: list[Entry], head: int) -> list[str]:
    """Checks that the log is gapless, in commit order, with times that do not decrease, and that a batch is contiguous."""
    wrong = []
    seqs = [entry.seq for entry in entries]
    if seqs != list(range(1, head + 1)):
        gaps = [seq for seq in range(1, head + 1) if seq not in set(seqs)]
        wrong.append(f"the log is not 1 to {head}: missing {gaps[:5]}, {len(seqs)} entries")
    back = [(one, other) for one, other in zip(entries, entries[1:]) if other.at < one.at]
    if back:
        one, other = back[0]
        wrong.append(f"committed_at goes back {len(back)} times, first by {(one.at - other.at) / 1e6:.3f} s at seq {other.seq}")
    ended, last = set(), None
    for entry in entries:
        if entry.batch != last:
            if entry.batch in ended:
                wrong.append(f"batch {entry.batch} at seq {entry.seq} is in two pieces")
            ended.add(last)
            last = entry.batch
    return wrong


def unchanged(known: dict[int, Entry], now: list[Entry]) -> list[str]:
    """Checks that entries are as in an earlier read; the beginning may have been pruned, but not the end."""
    wrong = []
    changed = [entry.seq for entry in now if known.get(entry.seq, entry) != entry]
    if changed:
        wrong.append(f"entries of the log are not what they were: {changed[:5]} ({len(changed)} of them)")
    if known and (not now or max(known) > now[-1].seq):
        wrong.append(f"the log ended at {max(known)} and ends at {now[-1].seq if now else 0} now")
    return wrong


def may_be_lost(operation: Operation, restored: Restored | None) -> bool:
    """Whether a write was acknowledged, but may be missing in a restored copy."""
    return (restored is not None and operation.invoked < restored.killed
            and (operation.seq is None or operation.seq > restored.kept))


def acknowledged(history: History, entries: list[Entry], restored: Restored | None) -> list[str]:
    """Checks that each acknowledged write is in the log once, at its seq; each refused one not at all; each other one at most once."""
    wrong = []
    where: dict[str, list[int]] = defaultdict(list)
    for entry in entries:
        for token in tokens(entry):
            where[token].append(entry.seq)
    told: dict[int, Operation] = {}
    by_seq = {entry.seq: entry for entry in entries}
    for operation in history.operations:
        if not operation.wrote or operation.kind == "stale":
            if operation.kind == "stale" and where.get(operation.value):
                wrong.append(f"refused and written: {operation.value} by {operation.client} at {where[operation.value]}")
            continue
        if operation.value is not None:
            found = where.get(operation.value, [])
            if len(found) > 1:
                wrong.append(f"written twice: {operation.value} at {found}")
            if operation.status == REFUSED and found:
                wrong.append(f"refused and written: {operation.value} at {found}")
            if operation.status == OK and not found and not may_be_lost(operation, restored):
                wrong.append(f"acknowledged and lost: {operation.value} by {operation.gateway} at seq {operation.seq}, "
                             f"asked for at {operation.invoked:.3f}, told at {operation.completed}")
            if operation.status == UNKNOWN and any(text in operation.note for text in NOT_WRITTEN) and found:
                wrong.append(f"said not to be written, and written: {operation.value}")
            if operation.status == OK and found and operation.seq is not None and found != [operation.seq] \
                    and not may_be_lost(operation, restored):
                wrong.append(f"told seq {operation.seq}, written at {found}: {operation.value} by {operation.gateway}")
        if operation.status == OK and operation.seq is not None and not may_be_lost(operation, restored):
            if operation.seq in told:
                wrong.append(f"two writes were told seq {operation.seq}: {operation} and {told[operation.seq]}")
            told[operation.seq] = operation
            entry = by_seq.get(operation.seq)
            if entry is None:
                wrong.append(f"acknowledged and lost: {operation.kind} of {operation.key} at seq {operation.seq} by {operation.gateway}")
            elif not _fits(operation, entry):
                wrong.append(f"seq {operation.seq} was told for {operation.kind} of {operation.key}, and is {list(entry.changes)[:3]}")
    return wrong


def _fits(operation: Operation, entry: Entry) -> bool:
    first = {path.split("/")[1] for path in entry.changes}
    wanted = {"write": {"large"} if operation.key == "large" else {"reg"}, "cas": {"reg"}, "increment": {"count"}}.get(
        operation.kind, {operation.key})
    return first == ({"fan", "marks", "count"} if operation.kind == "update" else wanted)


def order(history: History, entries: list[Entry], restored: Restored | None) -> list[str]:
    """Checks that a write with an answer before the begin of another one precedes it in the log."""
    place = {token: entry.seq for entry in entries for token in tokens(entry)}
    events = []
    for operation in history.operations:
        if operation.wrote and operation.status == OK and operation.completed and operation.value in place \
                and not may_be_lost(operation, restored):
            events += [(operation.invoked, 0, place[operation.value], operation), (operation.completed, 1, place[operation.value], operation)]
    newest, holder, wrong = 0, None, []
    for _, is_end, seq, operation in sorted(events, key=lambda event: event[:3]):
        if is_end and seq > newest:
            newest, holder = seq, operation
        elif not is_end and seq < newest:
            wrong.append(f"{operation.value} is at seq {seq}, though {holder.value} at {newest} was told before it was asked for")
    return wrong[:3]


def counters(history: History, entries: list[Entry], restored: Restored | None) -> list[str]:
    """Checks that every increment adds one, and that their number is between that of the acknowledged and that of the requested ones."""
    wrong = []
    for name in ("plain", "marked"):
        path, value = f"/count/{name}", 0
        for entry in entries:
            if path in entry.changes:
                if entry.changes[path] != value + 1:
                    wrong.append(f"{path} goes from {value} to {entry.changes[path]} at seq {entry.seq}")
                value = entry.changes[path]
        kind = {"plain": "increment", "marked": "update"}[name]
        mine = [operation for operation in history.operations if operation.kind == kind]
        least = sum(operation.status == OK and not may_be_lost(operation, restored) for operation in mine)
        most = sum(operation.status in (OK, UNKNOWN) for operation in mine)
        if not least <= value <= most:
            wrong.append(f"{path} is {value}, of {least} acknowledged and {most - least} unknown increments")
    marks = sum(keys(path)[0] == "marks" for entry in entries for path in entry.changes)
    total = sum("/count/marked" in entry.changes for entry in entries)
    if marks != total:
        wrong.append(f"{marks} marks, but {total} increments that belong to them")
    for entry in entries:
        fan = {value for path, value in entry.changes.items() if path.startswith("/fan/")}
        if fan and (len(fan) != 1 or len(entry.changes) != 5):
            wrong.append(f"an update is in the log in part: seq {entry.seq}, {list(entry.changes)}")
    return wrong


def comparisons(history: History, entries: list[Entry]) -> list[str]:
    """Checks that a compare-and-set succeeded only with its expected value."""
    wanted = {operation.value: operation for operation in history.operations if operation.kind == "cas"}
    state: dict[str, object] = {}
    wrong = []
    for entry in entries:
        for path, value in entry.changes.items():
            names = keys(path)
            if names[0] != "reg":
                continue
            operation = wanted.get(value)
            if operation and state.get(names[1]) != operation.expected:
                wrong.append(f"{value} by {operation.gateway} replaced {state.get(names[1])} at seq {entry.seq}, and named "
                             f"{operation.expected}")
            state[names[1]] = value
    return wrong


def orders(history: History, entries: list[Entry], restored: Restored | None) -> list[str]:
    """Checks that each onDisconnect write was executed once, and refused or cancelled ones never."""
    done = Counter(keys(path)[1] for entry in entries for path in entry.changes if keys(path)[0] == "gone")
    wrong = []
    known = set()
    for order in history.orders:
        known.add(order.token)
        count = done.get(order.token, 0)
        least = most = 1
        if order.status == UNKNOWN or order.cancelled in (UNKNOWN, REFUSED):
            least = 0
        if restored and order.invoked < restored.killed:
            least = 0
        if order.status == REFUSED or order.cancelled == OK:
            least = most = 0
        if restored and order.invoked < restored.killed and order.cancelled == OK:
            most = 1
        if not least <= count <= most:
            wrong.append(f"an onDisconnect request ({order.status}, cancelled: {order.cancelled}) was done {count} times: {order.token}")
    for token in done.keys() - known:
        wrong.append(f"nobody asked for /gone/{token}")
    return wrong


def registers_at(entries: list[Entry], seq: int) -> dict:
    """The registers' values right after an entry."""
    tree: dict = {}
    for entry in entries:
        if entry.seq > seq:
            break
        for path, value in entry.changes.items():
            if keys(path)[0] == "reg":
                tree = assign(tree, path, value) or {}
    return tree.get("reg", {})
