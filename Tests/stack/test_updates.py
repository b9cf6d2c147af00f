"""Changes while clients work: new settings one gateway after another, gateways at other addresses, a proxy that starts alone."""

from harness.waiting import wait_until
from load import Load
from stack import GATEWAYS, ROOT


def environment(stack, gateway: str) -> list[str]:
    return stack.inspect(gateway)["Config"]["Env"]


def test_a_rolling_update_fails_no_request(stack, load):
    """By docs/guides/deployment.md: a changed setting, then the script."""
    before = [stack.inspect(gateway)["Id"] for gateway in GATEWAYS]
    load.run_for(3)
    stack.run(ROOT / "deploy/rolling-update", PATHMIRROR_WRITE_LIMIT="67MB/m")
    load.run_for(3)
    load.settle()
    after = [stack.inspect(gateway)["Id"] for gateway in GATEWAYS]
    assert not set(before) & set(after)
    for gateway in GATEWAYS:
        assert "PATHMIRROR_WRITE_LIMIT=67MB/m" in environment(stack, gateway)
    assert not load.failures, load.report()
    assert not load.lost and not load.undead and not load.unheard, load.report()
    assert load.reconnects >= 2, "the stream and the socket were on gateways that were replaced"


def test_a_rolling_update_changes_nothing_when_a_gateway_is_not_well(stack):
    stack.compose("stop", "gateway-b")
    before = stack.inspect("gateway-a")["Id"]
    done = stack.run(ROOT / "deploy/rolling-update", "--force-recreate", check=False)
    assert done.returncode == 1 and "gateway-b is not ready: nothing was changed" in done.stderr
    assert stack.inspect("gateway-a")["Id"] == before
    stack.compose("start", "gateway-b")
    stack.wait_until_served()


def test_new_settings_of_the_proxy_are_taken_up_without_a_failed_request(stack, load):
    load.run_for(2)
    stack.execute("proxy", "nginx", "-c", "/etc/nginx/pathmirror/nginx.conf", "-s", "reload")
    load.run_for(5)
    load.settle()
    assert not load.failures and not load.lost and not load.unheard, load.report()


def test_a_plain_up_with_a_changed_setting_fails_requests_and_loses_none(stack, load):
    """Both gateways and the proxy that depends on them restart at once, which the rolling update avoids."""
    load.run_for(2)
    stack.up("--no-build", PATHMIRROR_WRITE_LIMIT="66MB/m")
    stack.wait_until_served()
    load.settle()
    assert not load.lost and not load.undead and not load.unheard, load.report()
    assert load.failures, "docs/guides/deployment.md says otherwise"


def test_gateways_are_found_at_other_addresses(stack, figure):
    """Both gateways are created again while others hold their former addresses."""
    before = {gateway: stack.address(gateway) for gateway in GATEWAYS}
    stack.compose("rm", "--stop", "--force", *GATEWAYS)
    network = f"{stack.settings['COMPOSE_PROJECT_NAME']}_front"
    holders = [stack.run(stack.docker, "run", "--rm", "--detach", "--network", network, "--ip", address,
                         "--entrypoint", "sleep", "pathmirror:local", "600").stdout.strip() for address in before.values()]
    try:
        stack.up("--no-deps", *reversed(GATEWAYS))
        assert not set(before.values()) & {stack.address(gateway) for gateway in GATEWAYS}
        seconds = stack.wait_until_served(15)
        figure(f"gateways at other addresses: served {seconds:.1f} s after they were healthy, proxy untouched")
        asked = [stack.rest.put("moved", number).status for number in range(100)]
        assert asked == [200] * 100
    finally:
        stack.run(stack.docker, "rm", "--force", *holders)


def test_the_proxy_starts_and_serves_with_one_gateway_stopped(stack):
    for gateway in GATEWAYS:
        stack.compose("stop", gateway)
        stack.compose("restart", "proxy")
        wait_until(lambda: served(stack), "the proxy to serve", 20, 0.2)
        assert [stack.rest.put("alone", number).status for number in range(50)] == [200] * 50
        stack.compose("start", gateway)
        stack.wait_until_served()


def served(stack) -> bool:
    try:
        return stack.rest.put("alone", 0).status == 200
    except OSError:
        return False


def test_a_stop_of_both_gateways_is_answered_and_ends_by_itself(stack):
    stack.compose("stop", *GATEWAYS)
    response = stack.rest.put("nobody", 1)
    assert response.status == 503 and response.headers["Retry-After"] == "1"
    stack.compose("start", *GATEWAYS)
    assert stack.wait_until_served() < 30


def test_load_knows_a_lost_write(stack):
    """Tests the measure itself: a lost write is counted."""
    with Load(stack.rest, stack.secret) as load:
        load.run_for(0.5)
    load.written.add("never-written")
    load.settle()
    assert load.lost == load.unheard == {"never-written"}
