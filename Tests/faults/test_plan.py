"""A plan is its seed's, whatever runs; it has every kind, and no two faults that need the same at once."""

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
