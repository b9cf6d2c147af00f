"""The attacks, in the order of the table."""

from . import (
    consumers,
    dead_letters,
    forwarded_pulls,
    kafka_feeds,
    log_burst,
    nacks,
    reconnecting_pulls,
    silent_receivers,
    snapshot_seeks,
    windows,
)

ATTACKS = [module.ATTACK for module in (forwarded_pulls, silent_receivers, log_burst, snapshot_seeks, reconnecting_pulls, consumers,
                                        kafka_feeds, windows, dead_letters, nacks)]
BY_NAME = {attack.name: attack for attack in ATTACKS}
