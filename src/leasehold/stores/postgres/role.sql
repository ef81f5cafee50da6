-- The rights that the role of a Leasehold server needs; {role} is its name. Run it as the owner of the schema.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.folded TO {role};
GRANT SELECT, INSERT, UPDATE ON {schema}.page TO {role};
GRANT SELECT, INSERT, DELETE ON {schema}.turn, {schema}.history TO {role};
GRANT UPDATE (seq) ON {schema}.history TO {role}; -- to lock old events while they are deleted; none is changed
GRANT SELECT, UPDATE ON {schema}.meta TO {role};
GRANT SELECT ON {schema}.entry, {schema}.journal, {schema}.leases TO {role};
GRANT SELECT, UPDATE ON SEQUENCE {schema}.fence, {schema}.latest, {schema}.event_seq TO {role};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role}; -- the default, unless it was revoked
