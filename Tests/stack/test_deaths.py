"""Each container in turn is killed under load. No acknowledged write is lost, and the number of failures is limited."""

import time

import pytest
from harness.waiting import wait_until
from load import Load
from stack import GATEWAYS


def check(load: Load):
    load.settle()
    assert not load.lost and not load.undead and not load.unheard, load.report()


def kill_and_start(stack, load, service: str, away: float = 4):
    load.run_for(3)
    stack.compose("kill", "--signal", "KILL", service)
    load.run_for(away)
    stack.compose("start", service)
    stack.wait_until_served()
    load.run_for(3)


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_a_killed_gateway_fails_only_writes_that_it_had(stack, load, gateway):
    """At most one write of each writer was in flight. Its outcome is unknown, so the proxy does not repeat it."""
    kill_and_start(stack, load, gateway)
    check(load)
    assert load.failed("GET") == 0, load.report()
    assert sum(load.failures.values()) <= Load.WRITERS, load.report()
    assert {result for _, result in load.failures} <= {503}


def test_a_gateway_that_is_stopped_in_order_fails_hardly_anything(stack, load):
    """Without a removal from the proxy first: a write may meet a connection that is just being closed."""
    load.run_for(3)
    stack.compose("stop", "gateway-b")
    load.run_for(3)
    stack.compose("start", "gateway-b")
    stack.wait_until_served()
    check(load)
    assert load.failed("GET") == 0, load.report()
    assert sum(load.failures.values()) <= Load.WRITERS, load.report()


def test_a_killed_database_fails_writes_until_it_is_back(stack, load):
    kill_and_start(stack, load, "postgres")
    check(load)
    assert load.failed("GET") == 0, load.report()
    assert {result for _, result in load.failures} <= {503}, load.report()


def test_a_killed_proxy_fails_everything_until_it_is_back(stack, load):
    kill_and_start(stack, load, "proxy")
    check(load)
    # Refused or cut off, never answered wrongly.
    assert all(isinstance(result, str) for _, result in load.failures), load.report()
    served = [one for one in load.outcomes[-200:] if one.result == 200]
    assert len(served) > 100, load.report()


def test_a_killed_prometheus_fails_nothing(stack, load):
    kill_and_start(stack, load, "prometheus")
    check(load)
    assert not load.failures, load.report()


def test_a_gateway_whose_network_is_gone_costs_time_but_no_reads(stack, load):
    """Packets to the gateway are lost. The proxy abandons kept connections to it after about 13 s, and new ones after 1 s."""
    name = stack.inspect("gateway-a")["Name"].strip("/")
    network = f"{stack.settings['COMPOSE_PROJECT_NAME']}_front"
    load.run_for(3)
    stack.run(stack.docker, "network", "disconnect", network, name)
    load.run_for(20)
    stack.run(stack.docker, "network", "connect", "--alias", "gateway-a", network, name)
    stack.wait_until_served()
    load.run_for(2)
    check(load)
    assert load.failed("GET") == 0, load.report()
    assert sum(load.failures.values()) <= 2 * Load.WRITERS, load.report()
    assert max(one.seconds for one in load.outcomes) < 30, load.report()


def test_nothing_is_wrong_with_the_log_after_all_that(stack):
    for gateway in GATEWAYS:
        stack.execute(gateway, "pathmirror", "log", "verify")
    wait_until(lambda: stack.rest.get("x").status == 200, "an answer")


def test_the_whole_stack_comes_back_after_a_stop(stack, figure):
    stack.rest.set("kept", "before")
    stack.compose("stop")
    begin = time.monotonic()
    stack.up()
    figure(f"stopped and started again: served after {time.monotonic() - begin:.0f} s")
    stack.wait_until_served()
    assert stack.rest.value("kept") == "before"
