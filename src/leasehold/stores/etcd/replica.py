"""What one server knows of the store as of one commit. It asks nobody: whoever asks tells it what came back."""

from __future__ import annotations

from leasehold.model import EMPTY
from leasehold.stores.cache import Cache
from leasehold.stores.etcd import messages, rows
from leasehold.stores.etcd.journal import Overlay, changed, mark_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasehold.model import Record
    from leasehold.stores.etcd.journal import JournalEntry
    from leasehold.stores.etcd.rows import KeyNames, Meta


class Replica:
    """The last commit that we know of, the journal up to it, and some records as of it."""

    def __init__(self) -> None:
        self.meta = rows.Meta()
        self.last: bytes | None = None
        """That commit, as it is kept; empty: there was none. None: we know nothing."""
        self.overlay = Overlay()
        self.cache = Cache()

    @property
    def is_blank(self) -> bool:
        """Whether we know nothing."""
        return self.last is None

    def forget(self) -> None:
        """Nothing that we know can be trusted."""
        self.last = None
        self._clear()

    def _clear(self) -> None:
        self.cache.clear()
        self.overlay = Overlay()

    # ----------------------------------------------------------------------------------- to be asked

    def unchanged(self, names: KeyNames) -> bytes:
        """The compare by which etcd tells that nobody has committed since."""
        if self.last is None:  # there is no such revision: whoever knows nothing is told everything
            return messages.unchanged(names.meta, -1)
        return messages.equal(names.meta, self.last) if self.last else messages.absent(names.meta)

    def news(self, names: KeyNames) -> list[bytes]:
        """What tells what was committed since."""
        first, end = names.journal(0 if self.last is None else self.meta.at + 1), names.journal_end
        return [messages.get(names.meta), messages.get(first, end)]

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Which of these records have to be read."""
        records, overlay = self.cache.records, self.overlay
        missing = []
        for key in dict.fromkeys(keys):
            if key not in records:
                found = overlay.known(key)
                if found is None:
                    missing.append(key)
                else:
                    records[key] = found
        return missing

    def unknown(self, keys: Iterable[str]) -> set[str] | None:
        """Which of these are neither known nor in the journal; None: some have to be read. It changes nothing."""
        if self.last is None:
            return None
        records, overlay = self.cache.records, self.overlay
        unknown = {key for key in keys if key not in records}
        laid_over = [key for key in unknown if key in overlay.lines]
        if any(overlay.known(key) is None for key in laid_over):
            return None
        return unknown.difference(laid_over)

    # ------------------------------------------------------------------------------------ to be told

    def keep(self, keys: Sequence[str], kept: Sequence[Record]) -> None:
        """These records are kept like this, as of the commit that we know of."""
        records, overlay = self.cache.records, self.overlay
        for key, record in zip(keys, kept, strict=True):
            records[key] = overlay.on(key, record)
            overlay.read(key, mark_of(record), self.meta.part)

    def learn(self, last: bytes, entries: Sequence[JournalEntry]) -> bool:
        """The last commit, and the entries of the journal that we asked for. False: we have to ask for all of it."""
        meta = rows.meta_of(last) if last else _without_meta(entries)
        is_another = not self.is_blank and (meta.cluster != self.meta.cluster or meta.at < self.meta.at)
        starts_over = self.is_blank or meta.folded > self.meta.at
        first = meta.folded if starts_over else self.meta.at
        new = [entry for entry in entries if entry.number > first]
        if is_another or [entry.number for entry in new] != list(range(first + 1, meta.at + 1)):
            self.forget()
            return False
        if starts_over:
            self._clear()
        for entry in new:
            self._follow(entry)
        self.overlay.pass_by(meta.folded, meta.part)
        self.meta, self.last = meta, last
        return True

    def _follow(self, entry: JournalEntry) -> None:
        records = self.cache.records
        for key, _, _, *changes in entry.groups:
            before = records.get(key)
            if before is not None:
                records[key] = changed(before, changes)
        self.overlay.add(entry)

    def committed(self, last: bytes, meta: Meta, entry: JournalEntry | None, after: Mapping[str, Record]) -> None:
        """We have written this."""
        records = self.cache.records
        for key, record in after.items():
            records.pop(key, None)
            records[key] = record  # now the youngest: what is in use is forgotten last
        if entry is not None:
            self.overlay.add(entry)
        self.meta, self.last = meta, last

    def assume(self, keys: Iterable[str]) -> None:
        """That there are no such records."""
        self.cache.records.update(dict.fromkeys(keys, EMPTY))

    def unassume(self, keys: Iterable[str]) -> None:
        """Nobody has confirmed that."""
        for key in keys:
            self.cache.records.pop(key, None)


def _without_meta(entries: Sequence[JournalEntry]) -> Meta:
    """Somebody has removed it: what the journal tells of it."""
    if not entries:
        return rows.Meta()
    return rows.Meta(at=entries[-1].number, folded=entries[0].number - 1)
