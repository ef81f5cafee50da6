// The leases: a snapshot from the server, and then one event after another. It shows nothing itself.

const ENDS = new Set(["released", "expired", "forced", "cancelled"]);
const MODES = { X: "exclusive", S: "shared", N: "slots" };
const LATEST_MOST = 300;
const LANES = 256; // what is left of an event's number is that of its lane: only there do numbers tell the order

export class State {
  constructor() {
    this.leases = new Map();
    this.latest = []; // events, newest first
    this.seq = 0; // of the event that was applied last
    this.lanes = new Map(); // of each lane, the newest event
    this.version = 0; // grows with every change of the leases
    this.doubtful = false; // an event of a lease that is not known: fetch a snapshot
    this.rate = []; // times of events, for events a second
    this.seen = 0;
  }

  // From here on, events after this one arrive.
  begin(seq) {
    this.seq = seq;
    this.lanes = new Map([[seq % LANES, seq]]);
  }

  load(leases) {
    this.leases = new Map(leases.map((lease) => [lease.id, fromWire(lease)]));
    this.version++;
    this.doubtful = false;
  }

  apply(events) {
    for (const event of events) {
      if (event.seq <= (this.lanes.get(event.seq % LANES) ?? 0)) continue;
      this.lanes.set(event.seq % LANES, event.seq);
      this.seq = event.seq;
      this.seen++;
      this.#applyOne(event);
    }
    if (events.length === 0) return;
    this.rate.push([performance.now(), events.length]);
    this.latest.unshift(...events.slice(-LATEST_MOST).reverse());
    this.latest.length = Math.min(this.latest.length, LATEST_MOST);
    this.version++;
  }

  #applyOne(event) {
    const { kind, lease, detail } = event;
    if (kind === "granted" && !detail.expires_at) this.doubtful = true; // a store whose history has few details
    else if (kind === "granted") this.leases.set(lease, fromGrant(event));
    else if (ENDS.has(kind)) this.leases.delete(lease);
    else if ((kind === "renewed" || kind === "extended") && lease) this.#renew(lease, Date.parse(detail.expires_at), event);
    else if (kind === "renewed") {
      for (const [id, us] of Object.entries(detail.leases ?? {})) this.#renew(id, us / 1000, event);
    } else if (kind === "updated") {
      const known = this.leases.get(lease);
      if (known) this.leases.set(lease, { ...known, context: detail.context });
    }
  }

  #renew(id, expires, event) {
    const known = this.leases.get(id);
    if (!known) {
      this.doubtful = true;
      return;
    }
    const ttl = Math.max(1, expires - Date.parse(event.at));
    this.leases.set(id, { ...known, expires, ttl });
  }

  // A lease that expired by the store's clock is gone, even before a sweep records it.
  dropExpired(now) {
    for (const [id, lease] of this.leases) {
      if (lease.expires < now - 1500) {
        this.leases.delete(id);
        this.version++;
      }
    }
  }

  perSecond(over = 5000) {
    const from = performance.now() - over;
    while (this.rate.length && this.rate[0][0] < from) this.rate.shift();
    return this.rate.reduce((sum, [, count]) => sum + count, 0) / (over / 1000);
  }
}

// A lease ends with its session, if that is sooner: then its time runs down from what the session gave it last, and not
// from a TTL that it never had. Without that, an agent's lease would always seem about to expire.
function lifeOf(session, ttl, acquired, expires, asOf) {
  return session && expires < acquired + ttl ? Math.max(1, expires - asOf) : ttl;
}

function fromWire(lease) {
  const ttl = lifeOf(lease.session, lease.ttl_seconds * 1000, ...[lease.acquired_at, lease.expires_at, lease.as_of].map(Date.parse));
  return {
    id: lease.id, space: lease.space, resources: lease.resources, holder: lease.holder, session: lease.session,
    mode: lease.mode, slots: lease.slots, fence: lease.fence, ttl,
    acquired: Date.parse(lease.acquired_at), expires: Date.parse(lease.expires_at),
    name: lease.name, reason: lease.reason, context: lease.context, key: lease.key ?? null, principal: lease.principal ?? null, trace: lease.trace ?? null, host: lease.host ?? null, text: textOf(lease),
  };
}

function fromGrant(event) {
  const detail = event.detail;
  const acquired = Date.parse(event.at), expires = Date.parse(detail.expires_at);
  const lease = {
    id: event.lease, space: event.space, resources: event.resources, holder: event.holder, session: event.session,
    mode: MODES[detail.mode] ?? detail.mode, slots: detail.slots, fence: event.fence, ttl: lifeOf(event.session, detail.ttl_seconds * 1000, acquired, expires, acquired), acquired, expires,
    name: detail.name ?? null, reason: detail.reason ?? null, context: null, key: detail.key ?? null, principal: detail.principal ?? null, trace: detail.trace ?? null, host: detail.host ?? null,
  };
  lease.text = textOf(lease);
  return lease;
}

// The text that a search matches, made once.
function textOf(lease) {
  return [...lease.resources, lease.holder, lease.name ?? "", lease.space].join("\n").toLowerCase();
}
