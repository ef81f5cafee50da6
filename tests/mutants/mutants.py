"""Classic bugs of lock services, all of them."""

from __future__ import annotations

from tests.mutants.admitting import ADMITTING
from tests.mutants.asking import ASKING
from tests.mutants.closing import CLOSING
from tests.mutants.delivering import DELIVERING
from tests.mutants.guarding import GUARDING
from tests.mutants.keeping import KEEPING
from tests.mutants.lanes import DIVIDED
from tests.mutants.moving import MOVING
from tests.mutants.over_etcd import OVER_ETCD
from tests.mutants.over_git import OVER_GIT
from tests.mutants.owners import OWNED
from tests.mutants.principals import PRINCIPALS
from tests.mutants.serving import SERVING

MUTANTS = (
    *(*SERVING, *KEEPING, *MOVING, *OVER_GIT, *OVER_ETCD, *ADMITTING, *CLOSING, *PRINCIPALS, *ASKING, *DIVIDED),
    *GUARDING,
    *DELIVERING,
    *OWNED,
)
