// The public names, and nothing else.

export { LeaseholdError } from "./asking.js";
export { HeldLease, Leasehold } from "./client.js";
export { FlowLockService } from "./flow.js";
export { Locks } from "./locks.js";
