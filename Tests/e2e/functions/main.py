"""Database functions as they are deployed to Cloud Functions. Each appends its events to the file in EVENTS, one JSON object a line."""

import json
import os

from firebase_functions import db_fn

MESSAGE = "/rooms/{room}/messages/{message}"


def note(event: db_fn.Event, **values):
    facts = {"id": event.id, "type": event.type, "source": event.source, "subject": event.subject, "time": event.time.isoformat(),
             "instance": event.instance, "reference": event.reference, "location": event.location, "params": event.params,
             "auth": [event.auth_type, event.auth_id], **values}
    with open(os.environ["EVENTS"], "a") as file:
        file.write(json.dumps(facts) + "\n")


@db_fn.on_value_created(reference=MESSAGE)
def created(event: db_fn.Event[object]):
    note(event, before=None, after=event.data)


@db_fn.on_value_updated(reference=MESSAGE)
def updated(event: db_fn.Event[db_fn.Change]):
    note(event, before=event.data.before, after=event.data.after)


@db_fn.on_value_deleted(reference=MESSAGE)
def deleted(event: db_fn.Event[object]):
    note(event, before=event.data, after=None)


@db_fn.on_value_written(reference=MESSAGE)
def written(event: db_fn.Event[db_fn.Change]):
    note(event, before=event.data.before, after=event.data.after)
