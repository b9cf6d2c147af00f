"""A plan depends on its seed alone; it has every kind, and no two faults that need the same resource at once."""

from feed_plan import FEED_KINDS, SHORT_FEEDS, make_feeds
from plan import KINDS, make


def test_the_same_seed_makes_the_same_plan():
    assert make(7, 300) == make(7, 300)
    assert make(7, 300) != make(8, 300)


def test_three_hundred_faults_have_all_kinds():
    rounds = make(11, 300)
    faults = [fault for plan in rounds for fault in plan.faults]
    assert len(faults) == 300
    assert [fault.number for fault in faults] == list(range(300))
    assert {fault.kind for fault in faults} == {*KINDS, "copy-put-back"}


def test_no_two_faults_of_a_place_overlap():
    for seed in range(20):
        for plan in make(seed, 100):
            until: dict[tuple, float] = {}
            for fault in sorted(plan.faults, key=lambda fault: fault.at):
                if fault.kind == "copy-put-back":
                    assert fault is plan.faults[-1]
                    continue
                kind = KINDS[fault.kind]
                assert plan.clock or not kind.needs_clock
                places = [("postgres", None)] if kind.on in ("postgres", "all") else [(kind.on, fault.gateway)]
                places += [("process", name) for name in "abc"] if kind.on == "all" else []
                for place in places:
                    assert until.get(place, 0.0) < fault.at, fault
                    until[place] = fault.at + fault.lasts


def test_a_feed_plan_is_its_seeds_and_has_all_kinds():
    assert make_feeds(7, 300) == make_feeds(7, 300)
    assert make_feeds(7, 300) != make_feeds(8, 300)
    faults = [fault for plan in make_feeds(11, 1000) for fault in plan.faults]
    assert [fault.number for fault in faults] == list(range(1000))
    assert {fault.kind for fault in faults} == set(FEED_KINDS)
    assert set(SHORT_FEEDS) <= set(FEED_KINDS)


def test_between_waves_no_fault_lasts():
    for plan in make_feeds(5, 300):
        assert len(plan.rests) == 10 and plan.rests[-1] > max(fault.at for fault in plan.faults)
        for rest in plan.rests:
            assert not [fault for fault in plan.faults if fault.at < rest < fault.at + fault.lasts]


def test_no_two_feed_faults_of_a_place_overlap():
    for seed in range(10):
        for plan in make_feeds(seed, 200):
            until: dict[tuple, float] = {}
            for fault in sorted(plan.faults, key=lambda fault: fault.at):
                place = (FEED_KINDS[fault.kind].on, fault.gateway)
                assert until.get(place, 0.0) < fault.at, fault
                until[place] = fault.at + fault.lasts
