"""Bugs that look for a lock in another lane than everybody else, and so grant it twice; or lose an event on the way."""

from __future__ import annotations

from tests.mutants.kinds import Mutant

LANES = "tests/routing/test_lanes.py"
LAYOUT = "tests/routing/test_layout.py"
JOINING = "tests/routing/test_joining.py"
DIVIDING = "tests/routing/test_dividing.py"
SERVERS = "tests/routing/test_servers.py"
DIVIDED = (
    Mutant(
        "lanes: an id leads to another lane than its space",
        "domain/keys.py",
        "    return int(id_[start : start + 2], 16)\n",
        "    return int(id_[start + 1 : start + 3], 16)\n",
        (LANES,),
    ),
    Mutant(
        "lanes: the byte of a space depends on the process",
        "domain/keys.py",
        'found = _bytes[space] = _digest("space", space)[:2]\n',
        'found = _bytes[space] = f"{hash(space) % 256:02x}"\n',
        (LANES,),
    ),
    Mutant(
        "lanes: a request's record begins with its own hash",
        "domain/keys.py",
        'return "q" + actor_key[1:3] + _digest(actor_key, request_id, holder, principal or "")[2:]\n',
        'return "q" + _digest(actor_key, request_id, holder, principal or "")\n',
        ("tests/domain/test_keys.py",),
    ),
    Mutant(
        "lanes: the control lane has spaces, too",
        "routing/lanes.py",
        "    return CONTROL if space == SERVERS else keys.lane_with(keys.byte_of_space(space), lanes)\n",
        "    return CONTROL if space == SERVERS else keys.byte_of_space(space) % (lanes + 1)\n",
        (LANES,),
    ),
    Mutant(
        "lanes: an admin's verb by id goes to the lane of the caller's space",
        "routing/lanes.py",
        '    if verb == "force_release" and keys.is_lease_id(arguments["target"]):\n',
        '    if verb == "force_release" and arguments["target"] is None:\n',
        (LANES,),
    ),
    Mutant(
        "lanes: a turn does not compare the number on PostgreSQL",
        "stores/postgres/transaction.py",
        "        if found != store.layout:\n",
        "        if found.lane != store.layout.lane:\n",
        (LAYOUT, "-k", "postgres and number_changes"),
    ),
    Mutant(
        "lanes: a turn does not compare the number on etcd",
        "stores/etcd/reading.py",
        "    lanes.check(store.address, rows.meta_of(last).layout, store.layout)\n",
        "",
        (LAYOUT, "-k", "etcd and (number_changes or once_it_is_divided)"),
    ),
    Mutant(
        "lanes: a URL with another number opens the store",
        "stores/postgres/opening.py",
        "    if found != wanted:\n",
        "    if found.lane != wanted.lane:\n",
        (LAYOUT, "-k", "postgres and another_number"),
    ),
    Mutant(
        "lanes: etcd is divided although it is in use",
        "stores/etcd/lanes.py",
        "        [messages.absent(name) for name in names],\n",
        "        [],\n",
        (LAYOUT, "-k", "in_use_is_not_divided"),
    ),
    Mutant(
        "lanes: after a change, fences begin where the lane's own ended",
        "stores/postgres/dividing.py",
        "        highest = {name: max(column)",
        "        highest = {name: min(column)",
        (DIVIDING, "-k", "fences_rise"),
    ),
    Mutant(
        "lanes: after a change, a lane does not say that anything may have changed",
        "stores/postgres/dividing.py",
        'self._queries[lane]["fold_all"], {"id": os.urandom(16).hex()}',
        'self._queries[lane].in_schema("SELECT {schema}.fold()")',
        (DIVIDING, "-k", "missed_two_changes"),
    ),
    Mutant(
        "lanes: after a change, records of one lane stay where they were",
        "stores/postgres/dividing.py",
        "        for source, target in product(self._before, self._after):\n",
        "        for source, target in product(self._before[1:], self._after):\n",
        (DIVIDING, "-k", "goes_with_its_space"),
    ),
    Mutant(
        "lanes: a change forgets the history of lanes",
        "stores/postgres/dividing.py",
        "        self._join_histories()\n",
        "",
        (DIVIDING, "-k", "goes_with_its_space"),
    ),
    Mutant(
        "lanes: a server submits to the control lane",
        "locks/hosted.py",
        "            order.lane = lane\n",
        "            order.lane = 0\n",
        (SERVERS, "-k", "grant_a_name_once"),
    ),
    Mutant(
        "lanes: a client that leaves stays in the queue of its lane",
        "locks/hosted.py",
        "            self._by_engine[pending.command.engine].engine.abandon(pending)\n",
        "            self._control.engine.abandon(pending)\n",
        (SERVERS, "-k", "leaves_the_queue"),
    ),
    Mutant(
        "lanes: a cursor moves in every lane",
        "routing/cursors.py",
        "    return (*cursor[:lane], number, *cursor[lane + 1 :])\n",
        "    return tuple(max(number, place) for place in cursor)\n",
        (JOINING, "-k", "Cursors"),
    ),
    Mutant(
        "lanes: events of the same moment are told twice or never",
        "routing/joining.py",
        "(found.at_us, lane) < (event.at_us, own)",
        "found.at_us <= event.at_us",
        (JOINING, "-k", "fit_together"),
    ),
)
