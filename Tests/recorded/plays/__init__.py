"""The plays: fixed conversations, each in a namespace of its own. A function named `play_some_thing` is the play `some-thing`."""

import importlib
import pkgutil

PLAYS = {}
for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    for _name, _script in vars(importlib.import_module(f"{__name__}.{_module}")).items():
        if _name.startswith("play_"):
            PLAYS[_name.removeprefix("play_").replace("_", "-")] = _script
