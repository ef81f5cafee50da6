"""Mutants of servers that own lanes, and hand requests on to each other."""

from __future__ import annotations

from tests.mutants.kinds import Mutant

OWNERS = "tests/routing/test_owners.py"
APART = "tests/routing/test_owners_apart.py"
OWNED = (
    Mutant(
        "owners: a connection from another server that closes leaves the queue",
        "server/api/dispatch.py",
        "            self.wait.polls.keep_place(self)  # ",
        "            self.withdraw()  # ",
        (OWNERS, "-k", "killed_keeps and postgres"),
    ),
    Mutant(
        "owners: a client that disconnects elsewhere keeps its place",
        "server/api/handing_on.py",
        "            self._on.leave(self._link, self.operation.who, self._given, self.exchange)\n",
        "            pass\n",
        (OWNERS, "-k", "disconnects and postgres"),
    ),
    Mutant(
        "owners: what waits at a silent server goes on waiting there",
        "routing/links.py",
        "        for exchange in [each for each in self._exchanges if each.waits]:\n",
        "        for exchange in list[Exchange]():\n",
        (OWNERS, "-k", "left_alone and postgres"),
    ),
    Mutant(
        "owners: keys go to any address that the store names",
        "routing/links.py",
        '    return parts.scheme == "https" or (is_here(address) and is_here(own))\n',
        "    return bool(parts.scheme and own)\n",
        (APART, "-k", "trusted"),
    ),
    Mutant(
        "owners: an owner refuses a key that it has not read yet",
        "server/access/authentication.py",
        "                await self.refresh()\n            return self.by_key(token)\n",
        "                pass\n            return self.by_key(token)\n",
        (APART, "-k", "key_created"),
    ),
)
