"""The checker of registers detects wrong histories, and accepts right ones."""

import itertools
import random

import pytest
from check.linear import CAS, NOT_CAS, NEVER, READ, WRITE, Step, check, settle


def read(begun, ended, seen):
    return Step(READ, begun, ended, seen=seen)


def write(begun, ended, value, certain=True):
    return Step(WRITE, begun, ended if certain else NEVER, value=value, certain=certain)


def cas(begun, ended, expected, value, certain=True):
    return Step(CAS, begun, ended if certain else NEVER, value=value, expected=expected, certain=certain)


def refused(begun, ended, expected, seen):
    return Step(NOT_CAS, begun, ended, expected=expected, seen=seen)


RIGHT = {
    "nothing": [],
    "in turn": [write(0, 1, "a"), read(2, 3, "a"), cas(4, 5, "a", "b"), read(6, 7, "b")],
    "at once, either order": [write(0, 10, "a"), write(0, 10, "b"), read(11, 12, "a")],
    "a read beside a write": [write(0, 1, "a"), write(2, 6, "b"), read(3, 4, "a"), read(5, 7, "b")],
    "one that nobody saw": [write(0, 1, "a"), write(2, None, "b", False), read(3, 4, "a"), read(9, 10, "a")],
    "one that took effect late": [write(0, 1, "a"), write(2, None, "b", False), read(3, 4, "a"), read(9, 10, "b")],
    "a comparison of unknown outcome that was seen": [write(0, 1, "a"), cas(2, None, "a", "b", False), read(3, 4, "a"), read(5, 6, "b")],
    "a chain of unknown ones": [write(0, None, "a", False), cas(1, None, "a", "b", False), read(5, 6, "b")],
    "a refusal": [write(0, 1, "a"), refused(2, 3, "x", "a")],
}
WRONG = {
    "a lost update": [write(0, 1, "a"), cas(2, 5, "a", "b"), cas(3, 6, "a", "c")],
    "a write that is gone": [write(0, 1, "a"), write(2, 3, "b"), read(4, 5, "a")],
    "a stale read": [write(0, 1, "a"), write(2, 3, "b"), read(4, 5, "b"), read(6, 7, "a")],
    "a phantom": [write(0, 1, "a"), read(2, 3, "z")],
    "a value from nowhere before its write": [read(0, 1, "a"), write(2, 3, "a")],
    "an unknown one seen, gone, and seen again": [write(0, 1, "a"), write(2, None, "b", False), read(3, 4, "b"), read(5, 6, "a")],
    "done twice": [write(0, 1, "a"), write(2, 3, "b"), write(4, 5, "c"), read(6, 7, "c"), read(8, 9, "b")],
    "an unknown one done twice": [write(0, None, "a", False), read(1, 2, "a"), write(3, 4, "b"), read(5, 6, "a")],
    "reads go back": [write(0, 20, "a"), read(1, 2, "a"), read(3, 4, None)],
    "a comparison with what was not there": [write(0, 1, "a"), write(2, 3, "b"), cas(4, 5, "a", "c")],
    "a refusal for no reason": [write(0, 1, "a"), refused(2, 3, "a", "a")],
    "a refusal by something old": [write(0, 1, "a"), write(2, 3, "b"), refused(4, 5, "b", "a")],
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_histories_pass(name):
    assert check(RIGHT[name]).linear


@pytest.mark.parametrize("name", WRONG)
def test_wrong_histories_are_found(name):
    verdict = check(WRONG[name])
    assert verdict.decided and not verdict.linear and verdict.text


def test_a_search_that_is_given_up_says_so():
    many = [write(0, 100, f"v{number}") for number in range(30)] + [read(101, 102, "none of them")]
    verdict = check(many, limit=1000)
    assert not verdict.decided and not verdict.linear


def real(dice: random.Random, length: int) -> list[Step]:
    """A valid history of a register, from clients that overlap."""
    state, steps = None, []
    for number in range(length):
        at = number + dice.random() * 0.5
        begun, ended = at - dice.random() * 4, at + dice.random() * 4
        kind, lost = dice.choice([READ, WRITE, CAS]), dice.random() < 0.1
        if kind == READ:
            steps.append(read(begun, ended, state))
        elif kind == WRITE:
            if not lost or dice.random() < 0.5:
                state = number
            steps.append(write(begun, ended, number, not lost))
        else:
            expected = state
            if not lost or dice.random() < 0.5:
                state = number
            steps.append(cas(begun, ended, expected, number, not lost))
    return steps


def brute(steps: list[Step]) -> bool:
    """Tries every order of every choice of the uncertain operations."""
    certain = [step for step in steps if step.certain]
    doubtful = [step for step in steps if not step.certain]
    for size in range(len(doubtful) + 1):
        for chosen in itertools.combinations(doubtful, size):
            for order in itertools.permutations(certain + list(chosen)):
                state = None
                if any(order[late].ended < order[early].begun for early in range(len(order)) for late in range(early + 1, len(order))):
                    continue
                for step in order:
                    result = step.after(state)
                    if result is None:
                        break
                    state = result[0]
                else:
                    return True
    return False


@pytest.mark.parametrize("seed", range(20))
def test_long_histories_that_are_right_pass_and_are_decided(seed):
    verdict = check(real(random.Random(seed), 400))
    assert verdict.linear, verdict.text


@pytest.mark.parametrize("seed", range(60))
def test_agrees_with_trying_everything(seed):
    dice = random.Random(seed)
    steps = real(dice, 6)
    # Makes some of them wrong by an exchange of seen values.
    for _ in range(dice.randrange(3)):
        place = dice.randrange(len(steps))
        step = steps[place]
        if step.kind == READ:
            steps[place] = read(step.begun, step.ended, dice.choice([None, 0, 1, 2, 3, 4, 5]))
    steps = [step for step in steps]
    assert check(steps).linear == brute(steps)


@pytest.mark.parametrize("seed", range(20))
def test_one_stale_read_in_a_long_history_is_found(seed):
    dice = random.Random(seed)
    steps = real(dice, 200)
    last = max(step.ended for step in steps if step.certain)
    seen = [step.seen for step in steps if step.kind == READ and step.seen is not None]
    steps.append(read(last + 1, last + 2, seen[0]))
    assert not check(steps).linear


def test_what_is_uncertain_and_unseen_is_left_out():
    assert settle([write(0, None, "a", False)]) == []
