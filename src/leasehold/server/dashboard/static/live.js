// The connection to the server: a snapshot, then server-sent events. It reports a disconnect, and catches up by itself.

import { get } from "./api.js";
import { setClock } from "./times.js";

const KINDS = [
  "granted", "queued", "renewed", "updated", "released", "expired", "forced", "refused", "deadlock", "cancelled", "lost",
  "timeout", "quarantined", "cleared", "trespass", "extended", "noted", "planned", "plan_ended", "session_started",
  "session_ended", "key_created", "key_revoked",
];
// Events that change the wait-for graph.
const MOVES = new Set(["granted", "queued", "released", "expired", "forced", "cancelled", "timeout", "deadlock", "refused", "cleared", "session_ended"]);
const FLUSH = 100;
const PENDING_MOST = 20_000;
const QUIET = 10_000;

export class Live {
  constructor(state, tell) {
    this.state = state;
    this.tell = tell; // tell(what): "link", "events", "graph"
    this.link = "connecting";
    this.since = Date.now(); // of the present state of the link
    this.graph = null;
    this.moved = true;
    this.pending = [];
    this.source = null;
    this.retry = 0;
    this.stopped = false;
    this.heard = performance.now();
    this.graphAt = 0;
    this.anewAt = 0;
  }

  async start() {
    this.stopped = false;
    this.timer = setInterval(() => this.#flush(), FLUSH);
    this.pulse = setInterval(() => this.#check(), QUIET / 2);
    await this.#connect();
  }

  stop() {
    this.stopped = true;
    clearInterval(this.timer);
    clearInterval(this.pulse);
    clearTimeout(this.again);
    this.source?.close();
    this.source = null;
  }

  // Browsers allow six connections to one server, for all tabs together: a hidden tab must not keep one.
  rest() {
    if (this.stopped || this.resting) return;
    this.resting = true;
    clearTimeout(this.again);
    this.source?.close();
    this.source = null;
    this.#set("resting");
  }

  wake() {
    if (!this.resting) return;
    this.resting = false;
    this.#connect();
  }

  async #connect() {
    if (this.resting) return;
    try {
      const me = await get("/dashboard/session");
      if (!me.signed_in) return this.tell("signed-out");
      await this.snapshot();
      this.#open();
    } catch (error) {
      this.#lost(error);
    }
  }

  // An event between the first and the last of these arrives twice, which does no harm.
  async snapshot() {
    const newest = await get("/v1/history", { limit: 1 });
    const [leases] = await Promise.all([get("/v1/leases"), this.#lookAtGraph()]);
    this.state.begin(newest.events[0]?.seq ?? 0);
    this.pending = [];
    this.state.load(leases.leases);
    this.tell("events");
  }

  #open() {
    if (this.stopped || this.resting) return;
    this.source?.close();
    const source = new EventSource(`/v1/events?last_event_id=${this.state.seq}`);
    this.source = source;
    source.onopen = () => {
      this.retry = 0;
      this.heard = performance.now();
      this.#set("live");
    };
    source.onerror = () => this.source === source && this.#lost();
    source.addEventListener("gap", () => this.#anew());
    for (const kind of KINDS) source.addEventListener(kind, (message) => this.#take(message));
  }

  #take(message) {
    this.heard = performance.now();
    this.pending.push(JSON.parse(message.data));
    if (this.pending.length > PENDING_MOST) this.#flush();
  }

  #flush() {
    const events = this.pending;
    if (events.length) {
      this.pending = [];
      this.moved ||= events.some((event) => MOVES.has(event.kind));
      this.state.apply(events);
      this.tell("events");
    }
    if (this.state.doubtful && this.link === "live" && performance.now() > this.anewAt) this.#anew();
    if (this.moved && this.link === "live" && performance.now() > this.graphAt) this.#refreshGraph();
  }

  // The server computes the wait-for graph, which takes time, so it is fetched seldom while much happens.
  async #refreshGraph() {
    this.moved = false;
    const begun = performance.now();
    this.graphAt = Infinity;
    try {
      await this.#lookAtGraph();
      this.tell("graph");
    } catch {
      this.moved = true; // disconnected, or the server is busy: retry soon
    } finally {
      this.graphAt = performance.now() + Math.max(400, (performance.now() - begun) * 8);
    }
  }

  async #lookAtGraph() {
    this.graph = await get("/dashboard/graph");
    setClock(this.graph.at);
  }

  async #anew() {
    this.state.doubtful = false;
    if (this.looking) return;
    this.looking = true;
    const begun = performance.now();
    try {
      this.source?.close();
      await this.snapshot();
      this.#open();
    } catch (error) {
      this.#lost(error);
    } finally {
      this.looking = false;
      this.anewAt = performance.now() + Math.max(1000, (performance.now() - begun) * 8);
    }
  }

  // A connection that failed silently shows no error: check it now and then while nothing arrives.
  async #check() {
    if (this.link !== "live" || performance.now() - this.heard < QUIET) return;
    try {
      await get("/healthz", {}, 5000);
      this.heard = performance.now();
    } catch (error) {
      this.#lost(error);
    }
  }

  #lost(error) {
    this.source?.close();
    this.source = null;
    if (this.stopped || this.resting) return;
    if (error?.code === "unauthenticated") return this.tell("signed-out");
    this.#set("cut");
    clearTimeout(this.again);
    this.retry = Math.min(this.retry + 1, 6);
    this.again = setTimeout(() => this.#connect(), Math.min(5000, 250 * 2 ** this.retry) * (0.7 + Math.random() * 0.6));
  }

  #set(link) {
    if (this.link === link) return;
    this.link = link;
    this.since = Date.now();
    this.tell("link");
  }
}
